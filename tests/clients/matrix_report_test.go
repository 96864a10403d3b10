package clienttests

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The lines of docs/clients.md between which the results are written.
const (
	reportBegin = "<!-- Written by \"make clients\". -->\n"
	reportEnd   = "<!-- End of the part written by \"make clients\". -->\n"
)

// write replaces the results in docs/clients.md.
func (m *matrix) write(t *testing.T) {
	t.Helper()
	replaceInClients(t, reportBegin, reportEnd, m.report())
}

// replaceInClients replaces the text between two lines of docs/clients.md.
func replaceInClients(t *testing.T, begin, end, text string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "clients.md")
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(document), begin)
	_, after, foundEnd := strings.Cut(rest, end)
	if !found || !foundEnd {
		t.Fatalf("%s does not contain the lines %q and %q", path, begin, end)
	}
	if err := os.WriteFile(path, []byte(before+begin+text+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// report returns the tables of results.
func (m *matrix) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nIn the last six columns: failed calls / longest time without a successful call. The heartbeat was %s ms. A client with concurrency had %d callers, "+
		"the others one, each with a call about every 10 ms.\n", heartbeat(), loadCallers)
	fmt.Fprintf(&b, "The ACL user had the permissions `%s`.\n", strings.Join(shopRules[2:], " "))
	b.WriteString("\n| client | version | RESP | checks | plain: kill | plain: hand-over | cluster: kill | cluster: hand-over | Sentinel: kill | Sentinel: hand-over |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, d := range selected() {
		checks := "pass"
		if m.failed[d.name] {
			checks = "**fail**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |", d.name, m.versions[d.name], d.protocols(), checks)
		for _, mode := range allModes {
			for _, f := range faults {
				fmt.Fprintf(&b, " %s |", m.cell(d, mode, f))
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString("\nSettings with which these results were measured; where none are listed, the client had its defaults:\n\n")
	for _, d := range selected() {
		for _, mode := range slices.Sorted(maps.Keys(d.settings)) {
			fmt.Fprintf(&b, "- %s, %s: %s\n", d.name, mode, d.settings[mode])
		}
	}
	b.WriteString("\nNot supported by the client, or not usable:\n\n")
	for _, d := range selected() {
		for _, what := range slices.Sorted(maps.Keys(d.lacks)) {
			fmt.Fprintf(&b, "- %s, %s: %s\n", d.name, what, d.lacks[what])
		}
	}
	b.WriteByte('\n')
	return b.String()
}

// protocols returns the protocol versions of a client.
func (d *driver) protocols() string {
	if len(d.resp) == 0 {
		return "2"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(d.resp), " ", ", "), "[]")
}

// cell returns the failed calls and the gap of a client.
func (m *matrix) cell(d *driver, mode string, f fault) string {
	if !slices.Contains(d.modes, mode) {
		return "-"
	}
	o := m.faults[d.name][mode+" "+f.name]
	if o.hangs {
		return "hangs"
	}
	return fmt.Sprintf("%d / %.2f s", o.failed, o.gap.Round(10*time.Millisecond).Seconds())
}
