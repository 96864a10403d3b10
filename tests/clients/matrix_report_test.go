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

// write replaces the results in docs/clients.md.
func (m *matrix) write(t *testing.T) {
	t.Helper()
	_, present, _ := partOfClients(t, reportBegin, reportEnd)
	replaceInClients(t, reportBegin, reportEnd, m.report(selected(), present))
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

// tableHead is the head of the table of results.
const tableHead = "| client | version | RESP | checks | plain: kill | plain: hand-over | cluster: kill | cluster: hand-over | Sentinel: kill | Sentinel: hand-over | repeated by the program: kill, hand-over |\n" +
	"|---|---|---|---|---|---|---|---|---|---|---|\n"

// report returns the results of the drivers that were run. Unless these are all, the rows of the others and the texts
// around the table are those of the present report: they describe the run that measured the others.
func (m *matrix) report(run []*driver, present string) string {
	before, table, _ := strings.Cut(present, tableHead)
	table, after, _ := strings.Cut(table, "\n\n")
	if len(run) == len(drivers) {
		before, after = conditions(), settingsText()
	}
	var rows []string
	for i := range drivers {
		if d := &drivers[i]; slices.Contains(run, d) {
			rows = append(rows, m.row(d))
		} else if row := presentRow(d, table); row != "" {
			rows = append(rows, row)
		}
	}
	return before + tableHead + strings.Join(rows, "\n") + "\n\n" + after
}

// presentRow returns the row of a client in the table, or "" if there is none.
func presentRow(d *driver, table string) string {
	for row := range strings.SplitSeq(table, "\n") {
		if strings.HasPrefix(row, "| "+d.name+" |") {
			return row
		}
	}
	return ""
}

// conditions returns the text before the table.
func conditions() string {
	return fmt.Sprintf("\nIn the columns of faults: failed calls (in parentheses, the most of one caller) / longest time without a successful call. In the last column: calls that failed "+
		"in the library,\nand that the program repeated; they are counted as failed only if the repetitions failed, too. "+
		"The heartbeat was %s ms. A client with concurrency had %d callers, the others one, each with a call about every 10 ms.\n"+
		"The ACL user had the permissions `%s`.\n\n", defaultBeat, loadCallers, strings.Join(shopRules[2:], " "))
}

// settingsText returns the text after the table.
func settingsText() string {
	var b strings.Builder
	b.WriteString("Settings with which these results were measured; where none are listed, the client had its defaults:\n\n")
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

// row returns the row of a client that was run.
func (m *matrix) row(d *driver) string {
	checks := "pass"
	if m.failed[d.name] {
		checks = "**fail**"
	}
	cells := []string{"| " + d.name + " |", m.versions[d.name], "|", d.protocols(), "|", checks, "|"}
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

// TestReport checks that a report contains the rows of the clients that were run, and the present rows of the others. A run
// of all clients replaces the texts around the table.
func TestReport(t *testing.T) {
	all := make([]*driver, len(drivers))
	for i := range drivers {
		all[i] = &drivers[i]
	}
	first, second := all[0], all[1]
	m := &matrix{versions: map[string]string{first.name: "9.9.1", second.name: "9.9.2"}}
	old := func(d *driver) string { return "| " + d.name + " | old |\n" }
	present := "\nconditions\n\n" + tableHead + old(first) + old(all[2]) + "\nsettings\n"
	table := func(rows ...string) string { return tableHead + strings.Join(rows, "") + "\n" }
	for name, tt := range map[string]struct {
		run  []*driver
		want string
	}{
		"none":           {nil, present},
		"a present one":  {[]*driver{first}, "\nconditions\n\n" + table(m.row(first)+"\n", old(all[2])) + "settings\n"},
		"a new one":      {[]*driver{second}, "\nconditions\n\n" + table(old(first), m.row(second)+"\n", old(all[2])) + "settings\n"},
		"without result": {[]*driver{all[2]}, "\nconditions\n\n" + table(old(first), m.row(all[2])+"\n") + "settings\n"},
	} {
		if got := m.report(tt.run, present); got != tt.want {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, tt.want)
		}
	}
	got := m.report(all, present)
	if strings.Count(got, "\n| ") != 1+len(all) || strings.Contains(got, "old") || !strings.HasPrefix(got, conditions()) || !strings.HasSuffix(got, settingsText()) {
		t.Errorf("the report of all clients:\n%s", got)
	}
}

// TestReport_Document checks that docs/clients.md has the form that partial reports keep.
func TestReport_Document(t *testing.T) {
	_, present, _ := partOfClients(t, reportBegin, reportEnd)
	if got := (&matrix{}).report(nil, present); got != present {
		t.Errorf("a report without results changes the document:\n%s\nto\n%s", present, got)
	}
}
