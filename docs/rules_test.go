package docs

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/rules/envoy"
)

var update = flag.Bool("update", false, "replace the tables of keys in rules.md, and the replies in all documents")

// yamlBlock matches a block of YAML in a document, with the word after "yaml".
var yamlBlock = regexp.MustCompile("(?ms)^```yaml *(\\w*)\n(.*?)^```$")

// TestRulesFiles checks that each block of YAML in the documents is a valid rules file, or is converted to the next
// block if it is marked as a configuration of Envoy's service. A block that is marked as wrong must not be valid.
func TestRulesFiles(t *testing.T) {
	found := map[string]int{}
	for name, text := range documents(t) {
		converted := ""
		for _, block := range yamlBlock.FindAllStringSubmatch(text, -1) {
			found[name]++
			if converted != "" && block[2] != converted {
				t.Errorf("%s: got\n%s\nwant\n%s", name, block[2], converted)
			}
			converted = ""
			if block[1] == "envoy" {
				converted = convert(t, name, block[2])
				continue
			}
			if err := parse(name, block[1], block[2]); (err != nil) != (block[1] == "wrong") {
				t.Errorf("the error is %v\n%s", err, block[2])
			}
		}
		if converted != "" {
			t.Errorf("%s: no block after a configuration of Envoy's service", name)
		}
	}
	for _, name := range []string{"rules.md", "envoy.md"} {
		if found[name] < 2 {
			t.Errorf("%s: %d blocks of YAML, want at least 2", name, found[name])
		}
	}
}

// TestDatesHaveNotPassed checks that no override in a document with sessions has ended. Otherwise the server would reply
// differently to a reader that repeats the commands.
func TestDatesHaveNotPassed(t *testing.T) {
	until := regexp.MustCompile(`until: "?(\d{4}-\d\d-\d\d)`)
	all := documents(t)
	for _, name := range []string{"rules-tutorial.md", "rules-recipes.md"} {
		found := until.FindAllStringSubmatch(all[name], -1)
		if len(found) == 0 {
			t.Errorf("%s has no override with until", name)
		}
		for _, m := range found {
			if end, err := time.Parse(time.DateOnly, m[1]); err != nil || end.Before(time.Now()) {
				t.Errorf("%s: %s has passed (%v): write a date that is as late as those of the sessions", name, m[0], err)
			}
		}
	}
}

// parse parses a block of YAML with the given kind: a rules file, or a test file.
func parse(name, kind, text string) error {
	if kind == "test" {
		_, err := rules.ParseTests(name, []byte(text))
		return err
	}
	_, err := rules.Parse(name, []byte(text), time.LoadLocation)
	return err
}

// convert returns the rules file for a configuration of Envoy's service.
func convert(t *testing.T, name, text string) string {
	t.Helper()
	converted, notes, err := envoy.Convert([]envoy.Source{{Name: name, Text: []byte(text)}}, false)
	if err != nil || len(notes) > 0 {
		t.Errorf("%s: %v, notes %v", name, err, notes)
	}
	return string(converted)
}

// TestRulesKeys checks that the tables in rules.md have all keys, with the values, meanings and examples of the program.
func TestRulesKeys(t *testing.T) {
	text, err := os.ReadFile("rules.md")
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for _, table := range rules.Reference() {
		block := regexp.MustCompile(`(?s)(<!-- keys of ` + regexp.QuoteMeta(table.Map) + ` -->\n).*?(<!-- end -->)`)
		if !block.MatchString(got) {
			t.Errorf("rules.md has no table with the keys of %s", table.Map)
			continue
		}
		got = block.ReplaceAllStringFunc(got, func(old string) string {
			parts := block.FindStringSubmatch(old)
			return parts[1] + keyTable(table) + parts[2]
		})
	}
	if *update {
		if err := os.WriteFile("rules.md", []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != string(text) {
		t.Error("the tables of keys in rules.md are not those of the program: run go test ./docs -run RulesKeys -update")
	}
}

// keyTable returns the keys of a map as a table.
func keyTable(table rules.KeyTable) string {
	var b strings.Builder
	b.WriteString("| key | value | meaning | example |\n|---|---|---|---|\n")
	for _, k := range table.Keys {
		required := ""
		if k.Required {
			required = " (required)"
		}
		fmt.Fprintf(&b, "| `%s`%s | %s | %s | `%s: %s` |\n", k.Name, required, k.Value, escapeCell(k.Doc), k.Name, k.Example)
	}
	return b.String()
}

// escapeCell escapes the characters with a meaning in tables and HTML.
func escapeCell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "[", `\[`, "<", "&lt;").Replace(text)
}

// TestEnvoyKeys checks that the table of envoy.md has all keys of Envoy's service.
func TestEnvoyKeys(t *testing.T) {
	text, err := os.ReadFile("envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(`domain descriptors key value rate_limit unit requests_per_unit unlimited name replaces shadow_mode quota_mode
		detailed_metric value_to_metric share_threshold metadata`) {
		if !strings.Contains(string(text), "\n| `"+name+"` | ") {
			t.Errorf("envoy.md does not describe the key %s", name)
		}
	}
}
