package server

import (
	"bytes"
	"runtime"
	"testing"
	"weak"

	"github.com/throttledhq/throttled/rules"
)

// TestBatch_DropsReplacedSet checks that the next use of a batch drops a set of rules that has been replaced, whether or
// not this use needs rules.
func TestBatch_DropsReplacedSet(t *testing.T) {
	for _, test := range []struct {
		name string
		next string // the next command; empty: one without rules
	}{{"a check by the new set", "CL.CHECK d user b"}, {"no command of the rules", ""}} {
		t.Run(test.name, func(t *testing.T) {
			store := newRules(t, "version: 1\ndomain: d\nlimits: {a: {per: user, allow: 5/min}, b: {allow: 5/min}}\n")
			var state ruleState
			state.init(store)
			b := newBatch()
			b.rule.state = &state
			use := func(command string) {
				if command != "" {
					if err := parseCheck(&b.parsing, bytes.Fields([]byte(command))); err != nil {
						t.Fatal(err)
					}
				}
				b.reset()
			}

			use("CL.CHECK d user a")
			old := firstLimit(t, &state)
			setRules(t, store, "version: 1\ndomain: d\nlimits: {a: {allow: 5/min}}\n")
			if use(test.next); isReachable(old) {
				t.Error("the batch keeps the set that has been replaced")
			}
			runtime.KeepAlive(b)
		})
	}
}

// firstLimit returns a limit of the active set. Matches refer to the limits of a set, and not to the set itself.
func firstLimit(t *testing.T, state *ruleState) weak.Pointer[rules.Limit] {
	t.Helper()
	active, err := state.active()
	if err != nil {
		t.Fatal(err)
	}
	return weak.Make(&active.Set.File().Domains[0].Limits[0])
}

func isReachable(limit weak.Pointer[rules.Limit]) bool {
	runtime.GC()
	return limit.Value() != nil
}
