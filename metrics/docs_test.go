package metrics

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table in docs/metrics.md anew")

// TestDocs checks that the table in docs/metrics.md lists all metrics. With -update, it writes the table.
func TestDocs(t *testing.T) {
	const path, head = "../docs/metrics.md", "| metric | type | labels | |\n|---|---|---|---|\n"
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(file), head)
	table, after, _ := strings.Cut(rest+"\n", "\n\n") // the table can be at the end of the file
	if !found {
		t.Fatalf("%s has no table of metrics", path)
	}
	var want []string
	for _, f := range Families() {
		labels := ""
		if len(f.Labels) > 0 {
			labels = "`" + strings.Join(f.Labels, "`, `") + "`"
		}
		want = append(want, "| `"+f.Name+"` | "+f.Type+" | "+labels+" | "+strings.TrimSuffix(f.Help, ".")+" |")
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+head+strings.TrimRight(strings.Join(want, "\n")+"\n\n"+after, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != strings.Join(want, "\n") {
		t.Errorf("the table of metrics in %s differs from the metrics; go test ./metrics -run TestDocs -update writes it anew", path)
	}
}
