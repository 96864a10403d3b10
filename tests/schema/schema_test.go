package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/throttledhq/throttled/rules"
	"go.yaml.in/yaml/v3"
)

const testdata = "../../rules/testdata"

// compile returns the validator of rules files.
func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	return compileText(t, rules.Schema())
}

// compileText returns the validator of a schema.
func compileText(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("rules.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("rules.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// files returns the content of the YAML files in a directory of testdata, by name.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(testdata, dir, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	texts := map[string][]byte{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.Base(path)] = text
	}
	return texts
}

// validate validates each document of a file as an editor does. The error is the first one.
func validate(compiled *jsonschema.Schema, text []byte) error {
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var node yaml.Node
		switch err := decoder.Decode(&node); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := compiled.Validate(toJSON(node.Content[0])); err != nil {
			return err
		}
	}
}

// toJSON converts a node to the value that it has in JSON. Like YAML 1.2, JSON has no dates.
func toJSON(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = toJSON(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, toJSON(item))
		}
		return list
	}
	var v any
	if tag := n.ShortTag(); tag == "!!int" || tag == "!!float" || tag == "!!bool" || tag == "!!null" {
		if err := n.Decode(&v); err == nil {
			return v
		}
	}
	return n.Value
}

// TestSchema_Valid checks that each valid file conforms to the schema.
func TestSchema_Valid(t *testing.T) {
	compiled := compile(t)
	for name, text := range files(t, "valid") {
		if err := validate(compiled, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSchema_TestFiles checks the schema of test files.
func TestSchema_TestFiles(t *testing.T) {
	compiled := compileText(t, rules.TestSchema())
	for name, text := range files(t, "tests") {
		if err := validate(compiled, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"rules: a", "rules: a\ncases: {a: []}", "rules: a\ncases: {a: [{chek: {a: b}}]}", "rules: a\ncases: {a: [{check: {a: b}, expect: no}]}"} {
		if err := validate(compiled, []byte(text)); err == nil {
			t.Errorf("the schema permits %s", text)
		}
	}
}

// structural matches the errors of Parse that depend on the keys and the types of values only.
var structural = regexp.MustCompile(`^(unknown key|the key .* is missing|the value must be a (map|list|text)|the (map|list) is empty|.* is not supported yet|.* is not a (boolean|percentage))`)

// beyond lists files with an error that the schema cannot detect, usually because it depends on other parts of the file.
var beyond = map[string]bool{
	"limit-shadow-True.yaml":     true, // YAML makes the boolean true of it
	"tiers-differ.yaml":          true,
	"tiers-differ-override.yaml": true,
	"tiers-default-missing.yaml": true,
}

// TestSchema_Malformed checks that the schema refuses each file with a structural error.
func TestSchema_Malformed(t *testing.T) {
	compiled := compile(t)
	refused, total := 0, 0
	for name, text := range files(t, "malformed") {
		_, err := rules.Parse(name, text, time.LoadLocation)
		list, ok := err.(rules.Errors)
		if !ok {
			t.Fatalf("%s: Parse: %v", name, err)
		}
		var invalid *jsonschema.ValidationError
		wrong := errors.As(validate(compiled, text), &invalid) // and not an error of the YAML syntax
		total++
		if wrong {
			refused++
		}
		if structural.MatchString(list[0].Reason) && !wrong && !beyond[name] {
			t.Errorf("%s: the schema permits the file, but Parse has the error %v", name, list[0])
		}
	}
	if refused < 200 {
		t.Errorf("the schema refuses %d of %d malformed files, want at least 200", refused, total)
	}
	t.Logf("the schema refuses %d of %d malformed files", refused, total)
}

// TestSchema_Mutations replaces single characters of valid files, and checks that each file that Parse accepts conforms
// to the schema.
func TestSchema_Mutations(t *testing.T) {
	compiled := compile(t)
	accepted := 0
	replacements := []string{"", "a", "7", " ", ",", "*"}
	for name, text := range files(t, "valid") {
		for i := range text {
			mutant := append(append(slices.Clone(text[:i]), replacements[i%len(replacements)]...), text[i+1:]...)
			if _, err := rules.Parse(name, mutant, time.LoadLocation); err != nil {
				continue
			}
			accepted++
			if err := validate(compiled, mutant); err != nil {
				t.Errorf("%s, byte %d: %v\n%s", name, i, err, mutant)
			}
		}
	}
	if accepted < 1000 {
		t.Errorf("%d files accepted, want at least 1000", accepted)
	}
}

// TestSchema_Keys checks that each key of the reference is in the schema, with its meaning.
func TestSchema_Keys(t *testing.T) {
	text := append(rules.Schema(), rules.TestSchema()...)
	if !json.Valid(rules.Schema()) {
		t.Fatal("the schema is not JSON")
	}
	for _, table := range rules.Reference() {
		for _, k := range table.Keys {
			name, _ := json.Marshal(k.Name)
			doc, _ := json.Marshal(k.Doc)
			if !bytes.Contains(text, append(name, ':')) || !bytes.Contains(text, bytes.Trim(doc, `"`)) {
				t.Errorf("the schema lacks the key %s of %s, or its meaning", k.Name, table.Map)
			}
		}
	}
}
