package clienttests

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The lines of docs/clients.md between which the results are written.
const (
	reportBegin = "<!-- Written by \"make clients\". -->\n"
	reportEnd   = "<!-- End of the part written by \"make clients\". -->\n"
)

// write replaces the results in docs/clients.md. The rows of clients that are not selected remain.
func (m *matrix) write(t *testing.T) {
	t.Helper()
	_, present, _ := partOfClients(t, reportBegin, reportEnd)
	replaceInClients(t, reportBegin, reportEnd, m.report(strings.Split(present, "\n")))
}

func clientsPath() string { return filepath.Join("..", "..", "docs", "clients.md") }

// partOfClients splits docs/clients.md into the text between two lines, and the texts before and after it.
func partOfClients(t *testing.T, begin, end string) (before, part, after string) {
	t.Helper()
	document, err := os.ReadFile(clientsPath())
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(document), begin)
	part, after, foundEnd := strings.Cut(rest, end)
	if !found || !foundEnd {
		t.Fatalf("%s does not contain the lines %q and %q", clientsPath(), begin, end)
	}
	return before, part, after
}

// replaceInClients replaces the text between two lines of docs/clients.md.
func replaceInClients(t *testing.T, begin, end, text string) {
	t.Helper()
	before, _, after := partOfClients(t, begin, end)
	if err := os.WriteFile(clientsPath(), []byte(before+begin+text+end+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// report returns the tables of results. The rows of clients that are not selected are those of the present table.
func (m *matrix) report(present []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nIn the columns of faults: failed calls (in parentheses, the most of one caller) / longest time without a successful call. In the last column: calls that failed "+
		"in the library,\nand that the program repeated; they are counted as failed only if the repetitions failed, too. "+
		"The heartbeat was %s ms. A client with concurrency had %d callers, the others one, each with a call about every 10 ms.\n", defaultBeat, loadCallers)
	fmt.Fprintf(&b, "The ACL user had the permissions `%s`.\n", strings.Join(shopRules[2:], " "))
	b.WriteString("\n| client | version | RESP | checks | plain: kill | plain: hand-over | cluster: kill | cluster: hand-over | Sentinel: kill | Sentinel: hand-over | repeated by the program: kill, hand-over |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	for i := range drivers {
		fmt.Fprintln(&b, m.row(&drivers[i], present))
	}
	b.WriteString("\nSettings with which these results were measured; where none are listed, the client had its defaults:\n\n")
	for _, d := range drivers {
		writeItems(&b, d.name, d.settings)
	}
	b.WriteString("\nNot supported by the client, or not usable:\n\n")
	for _, d := range drivers {
		writeItems(&b, d.name, d.lacks)
	}
	b.WriteByte('\n')
	return b.String()
}

// row returns the row of a client.
func (m *matrix) row(d *driver, present []string) string {
	name := "| " + d.name + " |"
	if _, run := m.versions[d.name]; !run {
		i := slices.IndexFunc(present, func(line string) bool { return strings.HasPrefix(line, name) })
		return present[max(i, 0)] // the first line is empty
	}
	checks := "pass"
	if m.failed[d.name] {
		checks = "**fail**"
	}
	cells := []string{name, m.versions[d.name], "|", d.protocols(), "|", checks, "|"}
	for _, mode := range allModes {
		for _, f := range faults {
			cells = append(cells, m.cell(d, mode, f), "|")
		}
	}
	return strings.Join(append(cells, m.repeated(d), "|"), " ")
}

// writeItems writes an item for each entry of a table that belongs to a client.
func writeItems(b *strings.Builder, name string, table map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(table)) {
		fmt.Fprintf(b, "- %s, %s: %s\n", name, key, table[key])
	}
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
	sum, most := o.failures(excuseNone)
	failed := strconv.Itoa(sum)
	if d.callers > 1 && sum > 0 {
		failed += fmt.Sprintf(" (%d)", most)
	}
	return fmt.Sprintf("%s / %.2f s", failed, o.gap.Round(10*time.Millisecond).Seconds())
}

// repeated returns the number of calls that the program repeated after the loss and the transfer of the leader, for each mode in
// which it repeats calls, or "-" if there is none.
func (m *matrix) repeated(d *driver) string {
	var list []string
	for _, mode := range d.repeats {
		of := func(i int) int { return m.faults[d.name][mode+" "+faults[i].name].repeated }
		list = append(list, fmt.Sprintf("%s: %d, %d", titleOf[mode], of(0), of(1)))
	}
	if list == nil {
		return "-"
	}
	return strings.Join(list, "; ")
}

// titleOf has the name of each mode in the header of the table.
var titleOf = map[string]string{modePlain: "plain", modeCluster: "cluster", modeSentinel: "Sentinel"}
