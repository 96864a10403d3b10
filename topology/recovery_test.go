package topology

import "testing"

// TestRecovery checks that the result of Next is valid, and depends on the cluster, its members and the previous
// recovery. It also checks that Valid rejects malformed texts.
func TestRecovery(t *testing.T) {
	a, b := Member{ID: "n1", Raft: "h1:1"}, Member{ID: "n2", Raft: "h2:1"}
	first := Recovery("").Next("c", []Member{a, b})
	if first != Recovery("").Next("c", []Member{b, a}) {
		t.Error("Next depends on the order of the members")
	}
	second := first.Next("c", []Member{a, b})
	if first.Number() != 1 || second.Number() != 2 || Recovery("").Number() != 0 {
		t.Errorf("Number is wrong for the first recovery %q, the second %q or the empty one; want 1, 2 and 0", first, second)
	}
	seen := map[Recovery]bool{}
	for _, r := range []Recovery{
		first, second, Recovery("").Next("d", []Member{a, b}), Recovery("").Next("c", []Member{a}),
		Recovery("").Next("c", []Member{a, {ID: "n2", Raft: "h3:1"}}), "",
	} {
		if seen[r] || !r.Valid() || len(r) > MaxRecovery {
			t.Errorf("%q: duplicate %t, want false; valid %t, want true; want a length of at most MaxRecovery", r, seen[r], r.Valid())
		}
		seen[r] = true
	}
	for _, r := range []Recovery{"x", "1", "1-", "0-0123456789abcdef", "01-0123456789abcdef", "1-0123456789abcdeg", "-1-0123456789abcdef", "1-0123456789abcde"} {
		if r.Valid() {
			t.Errorf("Valid returned true for %q", r)
		}
	}
}
