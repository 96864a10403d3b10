package ruleset

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/rules"
)

const patched = `# limits of the shop
version: 1
domain: shop
limits:
  # failed logins
  login:
    when: {path: /login, method: [POST, PUT]} # both methods
    allow: 5 per 15m # small
  search: {allow: 10/min}
`

func TestMerge(t *testing.T) {
	for _, test := range []struct{ name, text, patch, want string }{
		{"a value, as YAML", patched, "domain: shop\nlimits:\n  login: {allow: 8 per 15m}\n",
			strings.Replace(patched, "5 per 15m", "8 per 15m", 1)},
		{"a value, as JSON", patched, `{"limits": {"login": {"allow": "8 per 15m"}}}`,
			strings.Replace(patched, "5 per 15m", `"8 per 15m"`, 1)},
		{"unchanged values, as JSON", patched, `{"version": 1, "domain": "shop", "limits": {"login": {"when": {"method": ["POST", "PUT"]}, "allow": "5 per 15m"}}}`, patched},
		{"a new comment", patched, "limits:\n  login:\n    allow: 5 per 15m # large\n", strings.Replace(patched, "# small", "# large", 1)},
		{"null that becomes a text", "a: null\n", `{"a": "null"}`, "a: \"null\"\n"},
		{"text in a list that becomes null", "a: [\"null\", b]\n", `{"a": [null, "b"]}`, "a: [null, \"b\"]\n"},
		{"null removes", patched, "limits: {search: null}", strings.Replace(patched, "  search: {allow: 10/min}\n", "", 1)},
		{"null of an unknown key", patched, "limits: {unknown: ~}", patched},
		{"a list is replaced", patched, "limits: {login: {when: {method: [DELETE]}}}",
			strings.Replace(patched, "[POST, PUT]", "[DELETE]", 1)},
		{"a map replaces a text, without null", patched, "limits: {search: {allow: {free: 5/min, pro: null}}}",
			strings.Replace(patched, "{allow: 10/min}", "{allow: {free: 5/min}}", 1)},
		{"a new limit", patched, "limits:\n  cart: {allow: 7/min, shadow: null}\n", patched + "  cart: {allow: 7/min}\n"},
		{"a new limit, as JSON", patched, `{"limits": {"cart": {"allow": "7/min"}}}`, patched + "  cart: {\"allow\": \"7/min\"}\n"},
		{"a new domain", patched, "version: 1\ndomain: api\nlimits: {a: {allow: 1/s}, b: null}\n",
			patched + "---\nversion: 1\ndomain: api\nlimits: {a: {allow: 1/s}}\n"},
		{"two documents", patched + "---\nversion: 1\ndomain: api\nlimits: {a: {allow: 1/s}}\n",
			"domain: api\nlimits: {a: {allow: 2/s}}\n---\ndomain: shop\nlimits: {search: null}\n",
			strings.Replace(patched, "  search: {allow: 10/min}\n", "", 1) + "---\nversion: 1\ndomain: api\nlimits: {a: {allow: 2/s}}\n"},
		{"text that looks like other types", "limits: {a: {when: {path: on, x: 0123, y: 1_000, z: '/users/{id}'}}}\n", "limits: {b: 2027-01-31}",
			"limits: {a: {when: {path: on, x: 0123, y: 1_000, z: '/users/{id}'}}, b: 2027-01-31}\n"},
	} {
		got, err := Merge(test.text, test.patch)
		if got != test.want || err != nil {
			t.Errorf("%s: error %v, got\n%s\nwant\n%s", test.name, err, got, test.want)
		}
	}
}

func TestMergeErrors(t *testing.T) {
	two := patched + "---\nversion: 1\ndomain: api\nlimits: {a: {allow: 1/s}}\n"
	for _, test := range []struct{ name, text, patch, want string }{
		{"empty", patched, "", "the patch is empty"},
		{"comment", patched, "# nothing", "the patch is empty"},
		{"not a map", patched, "[1]", "patch:1:1: a patch is a map"},
		{"not YAML", patched, "limits: {}\na: [", "patch:2:1: not valid YAML: "},
		{"not UTF-8", patched, "limits:\n  a: {allow: \"\xff\"}", "patch:2:15: byte 0xff is not valid UTF-8; "},
		{"merge key", patched, "limits:\n  <<: {login: 3}", `patch:2:3: "<<" is a merge key, and merge keys are not supported; write the keys`},
		{"tag of null", patched, `{"limits": {"login": !!null x}}`, "patch:1:22: tags are not supported; put a text that begins with ! in quotes"},
		{"tag of a text", patched, "limits: {a: !x {allow: 1/s}}", "patch:1:13: tags are not supported"},
		{"tag of a key", patched, "limits: {!!str a: {allow: 1/s}}", "patch:1:10: tags are not supported"},
		{"missing value", patched, "limits:\n  search:\n", "patch:2:10: the value is missing; write null"},
		{"repeated key", patched, "limits: {a: 1, a: 2}", `patch:1:16: the key "a" is repeated`},
		{"key is a list", patched, "? [a]\n: 1", `patch:1:3: the key "" is repeated or is not a text`},
		{"alias", patched, "limits: {a: &x {allow: 1/s}, b: *x}", "patch:1:13: aliases and anchors are not supported"},
		{"no domain", two, "limits: {}", "patch:1:1: the domain is missing; write domain and one of api, shop"},
		{"deep patch", patched, "a: " + strings.Repeat("[", 1000) + strings.Repeat("]", 1000), "read the patch: the text has more than 200 nested values"},
		{"deep rules", strings.Repeat("? ", 5000) + "a", "a: b", "read the rules: the text has more than 200 nested values"},
		{"null domain", patched, "domain: null\nlimits: {}", "patch:1:9: domain: a patch cannot remove a domain; write the name of a domain, or "},
		{"null domain of several", two, "domain: ~", "patch:1:9: domain: a patch cannot remove a domain"},
		{"rules are not YAML", "a: [", "limits: {}", "read the rules: yaml: line 1"},
	} {
		got, err := Merge(test.text, test.patch)
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %q and the error %v, want %q", test.name, got, err, test.want)
		}
	}
}

// TestLocate checks the places of the errors of patched rules.
func TestLocate(t *testing.T) {
	const two = patched + "---\nversion: 1\ndomain: api\nlimits: {a: {allow: 1/s}}\n"
	for _, test := range []struct{ name, text, patch, want string }{
		{"value", patched, "limits:\n  login:\n    allow: 6", `patch:3:12: limits.login.allow: "6": no period`},
		{"value of JSON", patched, `{"limits": {"login": {"allow": "6"}}}`, `patch:1:32: limits.login.allow: "6": no period`},
		{"key", patched, "limits: {login: {alow: 6/s}}", `patch:1:18: limits.login.alow: unknown key "alow"`},
		{"key of a new limit", patched, "limits:\n  cart: {allow: 1/s, x: 1}", `patch:2:22: limits.cart.x: unknown key "x"`},
		{"new limit without amount", patched, "limits:\n  cart: {cost: 2}", `patch:2:9: limits.cart.allow: the key "allow" is missing`},
		{"new domain", patched, "domain: api\nlimits: {a: {allow: 1/s}}", `patch:1:1: version: the key "version" is missing`},
		{"second domain", two, "domain: api\nlimits: {a: {allow: 1}}", `patch:2:21: limits.a.allow: "1": no period`},
		{"removed key", patched, "limits: {login: {allow: null}}", `rules:7:5: limits.login.allow: the key "allow" is missing`},
		{"rules", patched, "limits: {login: {ban: {after: 2/h, for: 1h}, shadow: true}}", `patch:1:23: limits.login.ban: a shadow limit`},
		{"rules that the patch makes wrong", patched, "limits: {login: {algorithm: fixed, zone: UTC}}", `patch:1:42: limits.login.zone: `},
		{"value in the rules", strings.Replace(patched, "5 per 15m", "5 per 15m burst 2", 1), "limits: {login: {algorithm: log}}",
			`rules:8:12: limits.login.allow: "5 per 15 minutes burst 2": the algorithm "log" has no burst`},
	} {
		s, l := newLocal()
		e := Editor{s, l}
		if _, err := e.Set(t.Context(), test.text, "", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Patch(t.Context(), test.patch, "", nil); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want %s", test.name, err, test.want)
		}
	}
}

// TestLocate_Unknown checks that an error at a place without a node has the line.
func TestLocate_Unknown(t *testing.T) {
	err := locate(rules.Errors{{File: nameOfPatched, Line: 7, Column: 2, Reason: "wrong"}}, patched, "limits: {search: null}")
	if want := `patched rules:7:2: wrong (in the line "when: {path: /login, method: [POST, PUT]} # both methods")`; err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	if err := locate(ErrBase, patched, "limits: {}"); !errors.Is(err, ErrBase) {
		t.Errorf("the error is %v, want %v", err, ErrBase)
	}
}

// TestMergePatchOfRFC runs the test cases in appendix A of RFC 7396.
func TestMergePatchOfRFC(t *testing.T) {
	for _, test := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		got, err := Merge(test[0], test[1])
		if err != nil {
			t.Errorf("%s patched with %s: %v", test[0], test[1], err)
			continue
		}
		if !reflect.DeepEqual(decoded(t, got), decoded(t, test[2])) {
			t.Errorf("%s patched with %s is %s, want %s", test[0], test[1], got, test[2])
		}
	}
}

// TestLargePatches checks that the time of Merge is not the product of the sizes of the text and of the patch. That would
// take minutes for these sizes.
func TestLargePatches(t *testing.T) {
	const n = 20_000 / race.Factor
	lines := func(format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, test := range []struct {
		name, text, patch string
		want              int // lines that contain a colon
	}{
		{"new keys", lines("a%d: 1\n"), lines("b%d: 1\n"), 2 * n},
		{"changed keys", lines("a%d: 1\n"), lines("a%d: 2\n"), n},
		{"removed keys", lines("a%d: 1\n") + "b: 1\n", lines("a%d: null\n"), 1},
		{"new domains", lines("---\ndomain: a%d\n"), lines("---\ndomain: b%d\n"), 2 * n},
		{"changed domains", lines("---\ndomain: a%d\n"), lines("---\ndomain: a%d\nb: 1\n"), 2 * n},
	} {
		begun := time.Now()
		got, err := Merge(test.text, test.patch)
		if colons := strings.Count(got, ":"); err != nil || colons != test.want {
			t.Errorf("%s: %d lines with a colon and the error %v, want %d", test.name, colons, err, test.want)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s: Merge took %v", test.name, took)
		}
	}
}

func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// FuzzMerge checks that the result of Merge is YAML, and that applying the same patch again does not change it.
func FuzzMerge(f *testing.F) {
	for _, patch := range []string{
		"limits: {login: {allow: 1/s}}", "limits: null", `{"limits": {"x": {"when": {"path": "/a/{id}"}}}}`,
		"domain: api\nlimits: {}\n", "a: |\n  x\n  y\n", "a: 'it''s'\nb: \"\\u00e9\"\n", "? a\n: b\n", "a: !!str 1\n", "# c\na: b # d\n",
	} {
		f.Add(patched, patch)
	}
	f.Add("0:\n0:\n0: {0: ,0: [0]}", "0: null")
	f.Fuzz(func(t *testing.T, text, patch string) {
		once, err := Merge(text, patch)
		if before, errBefore := documents(text); err != nil || errBefore != nil || slices.ContainsFunc(before, repeatsKey) {
			return // rules with a repeated key are refused, so they are never patched
		}
		twice, err := Merge(once, patch)
		if err != nil {
			t.Fatalf("the result %q cannot be patched again with %q: %v", once, patch, err)
		}
		a, errA := documents(once)
		b, errB := documents(twice)
		if errA != nil || errB != nil || !isEqualList(a, b) {
			t.Errorf("patched with %q, %q is %q and then %q; errors %v and %v", patch, text, once, twice, errA, errB)
		}
	})
}

// repeatsKey reports whether a map in a node has a key twice.
func repeatsKey(n *yaml.Node) bool {
	keys := map[string]bool{}
	for i, child := range n.Content {
		if repeatsKey(child) || n.Kind == yaml.MappingNode && i%2 == 0 && keys[child.Value] {
			return true
		}
		if i%2 == 0 {
			keys[child.Value] = true
		}
	}
	return false
}

// TestMergeOfManyKeys changes, removes and adds many keys of a large map. A search for each key takes minutes.
func TestMergeOfManyKeys(t *testing.T) {
	const total = 60_000 / race.Factor
	var text, patch, want strings.Builder
	for _, b := range []*strings.Builder{&text, &patch, &want} {
		b.WriteString("limits:\n")
	}
	for i := range total {
		fmt.Fprintf(&text, "  l%d: {allow: 5/s}\n", i)
		if i%2 == 0 {
			fmt.Fprintf(&patch, "  l%d: null\n", i)
			continue
		}
		fmt.Fprintf(&patch, "  l%d: {allow: 6/s}\n", i)
		fmt.Fprintf(&want, "  l%d: {allow: 6/s}\n", i)
	}
	patch.WriteString("  added: {allow: 7/s}\n")
	want.WriteString("  added: {allow: 7/s}\n")
	got, err := Merge(text.String(), patch.String())
	if err != nil || got != want.String() {
		t.Errorf("the merged text has %d bytes, error %v; want %d bytes", len(got), err, want.Len())
	}
}

// rivalry is a log in which another client makes a version before each of the first proposals.
type rivalry struct {
	*Local
	t    *testing.T
	left []string // texts of the other client
}

func (r *rivalry) Propose(ctx context.Context, p Proposal) (Result, error) {
	if len(r.left) > 0 {
		text := r.left[0]
		r.left = r.left[1:]
		propose(r.t, r.Local, text)
	}
	return r.Local.Propose(ctx, p)
}

// TestEditorHasRivals checks that changes without a base succeed although other clients change the rules, and that a patch
// keeps the changes of the others.
func TestEditorHasRivals(t *testing.T) {
	s, l := newLocal()
	propose(t, l, textOf("a"))
	rivals := []string{textOf("a", "b"), textOf("a", "b", "c")}
	e := Editor{s, &rivalry{l, t, rivals}}
	if r, err := e.Patch(t.Context(), "limits: {z: {allow: 1/s}}", "ann", nil); err != nil || r.Version.Number != 4 || r.Version.Limits != 4 {
		t.Errorf("Patch returned %+v and the error %v, want version 4 with the limits a, b, c and z", r, err)
	}
	e.Log = &rivalry{l, t, rivals[:1]}
	base := uint64(4)
	if _, err := e.Patch(t.Context(), "limits: {z: null}", "ann", &base); !errors.Is(err, ErrBase) {
		t.Errorf("Patch with a base returned the error %v, want %v", err, ErrBase)
	}
	e.Log = &rivalry{l, t, rivals[1:]}
	if r, err := e.Rollback(t.Context(), 1, "ann"); err != nil || r.Version.Number != 7 || r.Version.Hash != HashOf(textOf("a")) {
		t.Errorf("Rollback returned %+v and the error %v, want version 7", r, err)
	}
	e.Log = &rivalry{l, t, rivals}
	ctx := &ending{t.Context(), 3} // during the second attempt
	if _, err := e.Patch(ctx, "limits: {z: {allow: 1/s}}", "ann", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Patch returned the error %v, want that of the context", err)
	}
}

func TestEditor(t *testing.T) {
	s, l := newLocal()
	e := Editor{s, l}
	ctx := context.Background()
	if _, err := e.Patch(ctx, "limits: {}", "ann", nil); !errors.Is(err, ErrNoRules) {
		t.Errorf("Patch without rules returned the error %v, want %v", err, ErrNoRules)
	}
	if _, err := e.Rollback(ctx, 1, "ann"); !errors.Is(err, ErrNoRules) {
		t.Errorf("Rollback without rules returned the error %v, want %v", err, ErrNoRules)
	}
	if r, err := e.Set(ctx, patched, "ann", nil); err != nil || r.Version.Number != 1 || r.Version.Author != "ann" {
		t.Fatalf("Set returned %+v and the error %v", r, err)
	}
	if r, err := e.Patch(ctx, "limits: {search: null}", "bob", nil); err != nil || r.Version.Summary != "+0 -1 ~0: -shop/search" {
		t.Errorf("Patch returned %+v and the error %v", r, err)
	}
	old, newest := uint64(1), uint64(2)
	if _, err := e.Patch(ctx, "limits: {login: {allow: 6/s}}", "bob", &old); !errors.Is(err, ErrBase) {
		t.Errorf("Patch of version 1 returned the error %v, want %v", err, ErrBase)
	}
	if r, err := e.Patch(ctx, "limits: {login: {allow: 6/s}}", "bob", &newest); err != nil || r.Version.Number != 3 {
		t.Errorf("Patch of version 2 returned %+v and the error %v", r, err)
	}
	var list rules.Errors
	if _, err := e.Patch(ctx, "limits: {login: {allow: 6}}", "bob", nil); !errors.As(err, &list) || list[0].File != nameOfPatch {
		t.Errorf("a patch with an invalid result returned the error %v", err)
	}
	if r, err := e.Rollback(ctx, 1, "ann"); err != nil || r.Version.Number != 4 || r.Version.Hash != HashOf(patched) {
		t.Errorf("Rollback returned %+v and the error %v", r, err)
	}
	if _, text, err := e.Text(0); text != patched || err != nil {
		t.Errorf("after the rollback, the text is %q, error %v", text, err)
	}
	if r, err := e.Rollback(ctx, 1, "ann"); err != nil || r.Changed || r.Version.Number != 4 {
		t.Errorf("Rollback to the active text returned %+v and the error %v, want version 4, unchanged", r, err)
	}
}
