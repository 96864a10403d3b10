package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// change is a reply that differs from its document.
type change struct {
	file  string
	line  int // number of the first line of the reply in the document
	lines int // of the reply in the document
	shown string
}

// changes are the replies that differ, with the flag -update.
var changes []change

// rewrite writes the replies of the server to the documents, whether they are correct or not. Remarks stay in their lines.
func rewrite(t *testing.T) {
	t.Helper()
	for name, text := range documents(t) {
		lines := strings.Split(text, "\n")
		for _, c := range changes {
			if c.file == name {
				c.apply(lines)
			}
		}
		if changed := strings.ReplaceAll(strings.Join(lines, "\n"), removed+"\n", ""); changed != text {
			if err := os.WriteFile(name, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s is rewritten: review the difference, and commit verified replies only", name)
		}
	}
}

// removed is a line that rewrite removes.
const removed = "\x00"

var remarkOf = regexp.MustCompile(`^ *\S.*?( {2,}\S.*)$`)

// apply replaces the reply in the lines of the document. The number of lines does not change: a longer reply is in the
// last line.
func (c *change) apply(lines []string) {
	old := lines[c.line-1 : c.line-1+c.lines]
	got := strings.Split(strings.TrimRight(c.shown, "\n"), "\n")
	indent := ""
	if strings.HasPrefix(lines[c.line-2], "    ") {
		indent = "    "
	}
	for i := range old {
		remark := ""
		if m := remarkOf.FindStringSubmatch(old[i]); m != nil {
			remark = m[1]
		}
		switch {
		case i >= len(got):
			old[i] = removed
		case i == len(old)-1:
			old[i] = indent + strings.Join(got[i:], "\n"+indent) + remark
		default:
			old[i] = indent + got[i] + remark
		}
	}
}
