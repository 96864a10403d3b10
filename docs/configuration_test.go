package docs

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/options"
)

// documentedOption is the row of an option in configuration.md.
type documentedOption struct {
	section, value string
	fixed          bool
}

var (
	optionRow  = regexp.MustCompile("^\\| (`[^|]*`[^|]*) \\| ([^|]*) \\|")
	optionName = regexp.MustCompile("`([a-z0-9-]+)`( \\+)?")
	optionSize = regexp.MustCompile(`^(\d+)(kb|mb)$`)
)

// documentedOptions returns the rows of the section Options, by name. A + behind the last name of a row is that of all its
// names, and Replication, by its first sentence, has a + for each option.
func documentedOptions(t *testing.T) map[string]documentedOption {
	_, text, found := strings.Cut(documents(t)["configuration.md"], "\n## Options\n")
	if !found {
		t.Fatal("configuration.md has no section Options")
	}
	rows, section := map[string]documentedOption{}, ""
	for line := range strings.Lines(text) {
		if title, isTitle := strings.CutPrefix(line, "### "); isTitle {
			section = strings.TrimSpace(title)
		}
		row := optionRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		for _, name := range optionName.FindAllStringSubmatch(row[1], -1) {
			rows[name[1]] = documentedOption{section, row[2], section == "Replication" || strings.HasSuffix(row[1], "+")}
		}
	}
	return rows
}

// bytesOf returns the bytes of a size with a unit, and any other default unchanged.
func bytesOf(value string) string {
	size := optionSize.FindStringSubmatch(value)
	if size == nil {
		return value
	}
	n, _ := strconv.Atoi(size[1]) // it has digits only
	return strconv.Itoa(n * map[string]int{"kb": 1 << 10, "mb": 1 << 20}[size[2]])
}

// TestOptions checks that configuration.md has all options in the sections of the help text, with their defaults and marks.
// An empty default is described in words.
func TestOptions(t *testing.T) {
	rows := documentedOptions(t)
	for _, o := range options.List() {
		row, documented := rows[o.Name]
		delete(rows, o.Name)
		value := strings.Trim(o.Default, `"`)
		switch {
		case o.Group == "Compatibility" && !documented: // in one sentence
		case !documented:
			t.Errorf("configuration.md has no row for %s", o.Name)
		case row.section != o.Group || row.fixed != o.Fixed || value != "" && bytesOf(row.value) != value:
			t.Errorf("%s: configuration.md has %+v, the program %q, %q, fixed %t", o.Name, row, o.Group, value, o.Fixed)
		}
	}
	for name := range rows {
		t.Errorf("configuration.md has %s, which is no option", name)
	}
}
