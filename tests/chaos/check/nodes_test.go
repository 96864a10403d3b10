package check

import "testing"

func TestTerms(t *testing.T) {
	var terms Terms
	for _, tt := range []struct {
		term    uint64
		node    string
		bad     bool
		changes int
	}{
		{2, "n1", false, 0}, {2, "n1", false, 0}, {3, "n2", false, 1}, {2, "n1", false, 1},
		{2, "n2", true, 1}, {5, "n2", false, 2}, {4, "n3", false, 2}, {4, "n1", true, 2},
	} {
		if err := terms.Observe(tt.term, tt.node); (err != nil) != tt.bad {
			t.Errorf("%s leads in term %d: got the error %v; want an error only if another node led in this term", tt.node, tt.term, err)
		}
		if terms.Changes() != tt.changes {
			t.Errorf("%s leads in term %d: %d changes, want %d", tt.node, tt.term, terms.Changes(), tt.changes)
		}
	}
	if terms.Span() != 3 {
		t.Errorf("terms 2 to 5: span %d, want 3", terms.Span())
	}
	if none := new(Terms); none.Span() != 0 || none.Seen() || !terms.Seen() {
		t.Errorf("without a leader: span %d, seen %t, want 0 and false; with a leader: seen %t, want true", none.Span(), none.Seen(), terms.Seen())
	}
}

func TestAgreement(t *testing.T) {
	a := Fingerprint{Node: "n1", Index: 7, LogTime: 1, Keys: 2, Sum: "x"}
	with := func(change func(f *Fingerprint)) Fingerprint {
		b := a
		b.Node = "n2"
		change(&b)
		return b
	}
	for _, tt := range []struct {
		name      string
		other     Fingerprint
		same, bad bool
	}{
		{"equal", with(func(*Fingerprint) {}), true, false},
		{"behind", with(func(f *Fingerprint) { f.Index, f.Sum = 6, "y" }), false, false},
		{"other sum", with(func(f *Fingerprint) { f.Sum = "y" }), false, true},
		{"other keys", with(func(f *Fingerprint) { f.Keys = 3 }), false, true},
		{"other time", with(func(f *Fingerprint) { f.LogTime = 3 }), false, true},
	} {
		same, err := Agreement([]Fingerprint{a, tt.other})
		if same != tt.same || (err != nil) != tt.bad {
			t.Errorf("%s: same index: %t, error: %v; want the values of the case", tt.name, same, err)
		}
	}
}
