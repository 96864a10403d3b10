package ruleset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/rules"
)

// textOf returns a text with one domain and limits of the given names.
func textOf(limits ...string) string {
	var b strings.Builder
	b.WriteString("version: 1\ndomain: shop\nlimits:\n")
	for _, name := range limits {
		fmt.Fprintf(&b, "  %s: {allow: 5 per minute}\n", name)
	}
	return b.String()
}

// testTime is the time of all proposals in tests.
var testTime = time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)

func newLocal() (*Store, *Local) {
	s := NewStore()
	return s, NewLocal(s, func() time.Time { return testTime })
}

// ending is a context that ends when Err has returned nil a number of times.
type ending struct {
	context.Context
	left int
}

func (c *ending) Err() error {
	if c.left--; c.left < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestContextEnds checks that a change whose context ends before it is active changes nothing.
func TestContextEnds(t *testing.T) {
	s, l := newLocal()
	propose(t, l, textOf("a"))
	e := Editor{s, l}
	for _, test := range []struct {
		name   string
		checks int // number of checks of the context in a change that succeeds
		change func(context.Context) (Result, error)
	}{
		{"Propose", 2, func(ctx context.Context) (Result, error) { return l.Propose(ctx, Proposal{Text: textOf("b")}) }},
		{"Patch", 3, func(ctx context.Context) (Result, error) {
			return e.Patch(ctx, "limits: {c: {allow: 1/s}}", "ann", nil)
		}},
	} {
		before := s.Newest()
		for left := range test.checks {
			_, err := test.change(&ending{t.Context(), left})
			if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "nothing was changed, try again") {
				t.Errorf("%s, whose context ends after %d checks, returned the error %v", test.name, left, err)
			}
			if s.Newest() != before || s.Active().Version != before.Number {
				t.Fatalf("%s, whose context ends after %d checks, has changed the rules", test.name, left)
			}
		}
		if r, err := test.change(&ending{t.Context(), test.checks}); err != nil || r.Version.Number != before.Number+1 {
			t.Errorf("%s returned %+v and the error %v, want the next version", test.name, r, err)
		}
	}
}

// propose proposes a text. The test fails if the proposal fails.
func propose(t *testing.T, l Log, text string) Version {
	t.Helper()
	r, err := l.Propose(context.Background(), Proposal{Name: "test", Text: text, Author: "test"})
	if err != nil {
		t.Fatalf("Propose returned %v, want no error", err)
	}
	return r.Version
}

func TestStoreWithoutRules(t *testing.T) {
	s := NewStore()
	if a := s.Active(); a == nil || *a != (Active{}) {
		t.Errorf("Active of an empty store is %+v, want a zero Active", a)
	}
	if v := s.Newest(); v != (Version{}) {
		t.Errorf("Newest of an empty store is %+v, want a zero Version", v)
	}
	if _, _, err := s.Text(0); !errors.Is(err, ErrNoRules) {
		t.Errorf("Text returned the error %v, want %v", err, ErrNoRules)
	}
	s.CompileNewest()
	if got := s.Active().Version; got != 0 {
		t.Errorf("after CompileNewest the active version is %d, want 0", got)
	}
}

// TestMemory checks that the memory of the active set is estimated by its size, and that compiling leaves nothing behind.
func TestMemory(t *testing.T) {
	s, l := newLocal()
	check := func(when string, size, inCompile int) {
		t.Helper()
		active, compiling := s.Memory()
		if want := int64(memoryOfSet * size); active != want {
			t.Errorf("%s, the memory of the set is %d, want %d", when, active, want)
		}
		if want := int64(memoryOfCompile * inCompile); compiling != want {
			t.Errorf("%s, the memory to compile sets is %d, want %d", when, compiling, want)
		}
	}
	check("without rules", 0, 0)
	text := textOf("login", "api")
	propose(t, l, text)
	check("with rules", len(text), 0)
	if _, err := l.Propose(context.Background(), Proposal{Name: "test", Text: "limits"}); err == nil {
		t.Error("Propose accepted a text that is not valid")
	}
	if err := s.Compile(&Proposal{Name: "test", Text: textOf("cart")}); err != nil {
		t.Errorf("Compile returned %v for a valid text", err)
	}
	if err := s.Compile(&Proposal{Name: "test", Text: "limits"}); err == nil {
		t.Error("Compile accepted a text that is not valid")
	}
	check("after a text that is not valid", len(text), 0)
	s.inCompile.Add(10)
	check("while 10 bytes are compiled", len(text), 10)
}

// TestCompileOnce checks that the set of a proposal that was compiled before it was proposed is used, and that a text
// without effect is not compiled.
func TestCompileOnce(t *testing.T) {
	s, l := newLocal()
	p := Proposal{Name: "test", Text: textOf("a")}
	if err := s.Compile(&p); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Propose(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if a := s.Active(); a.Version != 1 || a.Set != p.set {
		t.Errorf("the active set is %+v, want version 1 with the set of the proposal", a)
	}
	again := Proposal{Name: "test", Text: textOf("a")}
	if err := s.Compile(&again); err != nil || again.set != nil {
		t.Errorf("the newest text was compiled again; error %v", err)
	}
	var list rules.Errors
	bad := Proposal{Name: "test", Text: "limits"}
	if err := s.Compile(&bad); !errors.As(err, &list) || list[0].File != "test" || bad.set != nil {
		t.Errorf("Compile of a text that is not valid returned the error %v", err)
	}
}

func TestProposalsBecomeVersions(t *testing.T) {
	s, l := newLocal()
	first := propose(t, l, textOf("a"))
	want := Version{
		Number: 1, Author: "test", Time: testTime, Hash: HashOf(textOf("a")), Size: len(textOf("a")), Limits: 1,
		Summary: "+1 -0 ~0: +shop/a",
	}
	if first != want {
		t.Errorf("the first version is\n%+v, want\n%+v", first, want)
	}
	second := propose(t, l, textOf("a", "b"))
	if second.Number != 2 || second.Limits != 2 || second.Summary != "+1 -0 ~0: +shop/b" {
		t.Errorf("the second version is %+v, want number 2 with 2 limits, of which one was added", second)
	}
	a := s.Active()
	if a.Version != 2 || a.Err != nil || len(a.Set.File().Domains[0].Limits) != 2 {
		t.Errorf("the active set is %+v, want version 2 with two limits", a)
	}
	if list := s.History(); len(list) != 2 || list[0] != second || list[1] != first {
		t.Errorf("the history is %+v, want versions 2 and 1", list)
	}
	for number, text := range map[uint64]string{0: textOf("a", "b"), 1: textOf("a"), 2: textOf("a", "b")} {
		if _, got, err := s.Text(number); got != text || err != nil {
			t.Errorf("Text(%d) returned %q and the error %v, want %q", number, got, err, text)
		}
	}
	if _, _, err := s.Text(3); !errors.Is(err, ErrVersion) {
		t.Errorf("Text(3) returned the error %v, want %v", err, ErrVersion)
	}
}

// TestProposalsWithoutEffect checks proposals that do not create a version.
func TestProposalsWithoutEffect(t *testing.T) {
	s, l := newLocal()
	propose(t, l, textOf("a"))
	propose(t, l, textOf("b"))
	base := func(n uint64) *uint64 { return &n }
	invalid := strings.Replace(textOf("c"), "5 per", "5 for", 1)
	for _, test := range []struct {
		name   string
		p      Proposal
		number uint64 // of the version in the result
		err    error
	}{
		{"same text", Proposal{Text: textOf("b")}, 2, nil},
		{"same text, right base", Proposal{Text: textOf("b"), Base: base(2)}, 2, nil},
		{"old text of a file", Proposal{Text: textOf("a"), OnlyNew: true}, 1, nil},
		{"old base", Proposal{Text: textOf("c"), Base: base(1)}, 0, ErrBase},
		{"same text, old base", Proposal{Text: textOf("b"), Base: base(1)}, 0, ErrBase},
		{"base in the future", Proposal{Text: textOf("c"), Base: base(3)}, 0, ErrBase},
		{"base without rules", Proposal{Text: textOf("c"), Base: base(0)}, 0, ErrBase},
		{"too large", Proposal{Text: strings.Repeat("#", MaxText+1)}, 0, ErrTooLarge},
		{"invalid", Proposal{Name: "test", Text: invalid}, 0, rules.Errors{}},
	} {
		r, err := l.Propose(context.Background(), test.p)
		var list rules.Errors
		isExpected := errors.Is(err, test.err)
		if _, invalid := test.err.(rules.Errors); invalid {
			isExpected = errors.As(err, &list) && list[0].Line == 4 && strings.HasPrefix(err.Error(), "test:4:")
		}
		if !isExpected || r.Changed || r.Version.Number != test.number {
			t.Errorf("%s: got %+v and the error %v, want version %d, unchanged, and the error %v", test.name, r, err, test.number, test.err)
		}
	}
	if s.Newest().Number != 2 || s.Active().Version != 2 {
		t.Errorf("the newest version is %d and the active one %d, want 2", s.Newest().Number, s.Active().Version)
	}
	if v := propose(t, l, textOf("a")); v.Number != 3 {
		t.Errorf("an earlier text became version %d, want 3", v.Number)
	}
}

// TestActivateOutOfOrder checks that a version with another number than the next one changes nothing.
func TestActivateOutOfOrder(t *testing.T) {
	s, l := newLocal()
	v := propose(t, l, textOf("a"))
	for _, number := range []uint64{0, 1, 3} {
		other := v
		other.Number = number
		if s.Activate(other, pack(textOf("a"))) {
			t.Errorf("version %d was activated after version 1", number)
		}
	}
	if s.Newest() != v || s.Active().Version != 1 {
		t.Errorf("the newest version is %+v, want %+v", s.Newest(), v)
	}
}

// TestActivateOfOtherNodes checks that a version that was prepared by another store becomes active when it is compiled.
func TestActivateOfOtherNodes(t *testing.T) {
	leader, log := newLocal()
	follower := NewStore()
	for i, text := range []string{textOf("a"), textOf("b"), textOf("c")} {
		v := propose(t, log, text)
		if !follower.Activate(v, leader.newest().packed) {
			t.Fatalf("version %d was not activated", i+1)
		}
	}
	if follower.Newest().Number != 3 || follower.Active().Version != 0 {
		t.Errorf("before CompileNewest, the newest version is %d and the active one %d, want 3 and 0",
			follower.Newest().Number, follower.Active().Version)
	}
	select {
	case <-follower.Changed():
	default:
		t.Error("Changed has no value after Activate")
	}
	follower.CompileNewest()
	a := follower.Active()
	if a.Version != 3 || a.Err != nil || a.Set.File().Domains[0].Limits[0].Name != "c" {
		t.Errorf("the active set is %+v, want version 3", a)
	}
}

// TestSetsThatCannotBeCompiled checks that a version that this program cannot compile replaces the version before, and
// that it is replaced by the next one.
func TestSetsThatCannotBeCompiled(t *testing.T) {
	bad := "version: 2\n"
	for _, test := range []struct {
		name   string
		v      Version
		packed []byte
		err    error
	}{
		{"a text of a later program", Version{Number: 2, Hash: HashOf(bad)}, pack(bad), rules.Errors{}},
		{"another text", Version{Number: 2, Hash: HashOf(bad)}, pack(textOf("a")), ErrDamaged},
		{"not compressed", Version{Number: 2, Hash: HashOf(bad)}, []byte(bad), ErrDamaged},
		{"no text", Version{Number: 2, Hash: HashOf(bad)}, nil, ErrDamaged},
	} {
		s, l := newLocal()
		propose(t, l, textOf("a"))
		if !s.Activate(test.v, test.packed) {
			t.Fatalf("%s: version 2 was not activated", test.name)
		}
		s.CompileNewest()
		var list rules.Errors
		a := s.Active()
		if a.Version != 2 || a.Set != nil || !errors.Is(a.Err, test.err) && !errors.As(a.Err, &list) {
			t.Errorf("%s: the active set is %+v, want version 2 with the error %v", test.name, a, test.err)
		}
		if v := propose(t, l, textOf("b")); v.Number != 3 || s.Active().Err != nil {
			t.Errorf("%s: the next version is %+v, and the active set is %+v; want version 3 without an error", test.name, v, s.Active())
		}
	}
}

// TestConcurrentProposals checks that of several proposals with one base, exactly one wins, and that readers never see
// an older version after a newer one.
func TestConcurrentProposals(t *testing.T) {
	s, l := newLocal()
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := uint64(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				a := s.Active()
				if a.Version < last || a.Version > 0 && a.Set == nil {
					t.Errorf("the active set is %+v after version %d", a, last)
					return
				}
				last = a.Version
			}
		})
	}
	const rounds, rivals = 20, 4
	for round := range uint64(rounds) {
		won := make(chan bool, rivals)
		for i := range rivals {
			writers.Go(func() {
				r, err := l.Propose(context.Background(), Proposal{Text: textOf(fmt.Sprintf("r%d-%d", round, i)), Base: &round})
				if err != nil && !errors.Is(err, ErrBase) {
					t.Errorf("Propose returned %v, want %v", err, ErrBase)
				}
				won <- err == nil && r.Changed
			})
		}
		writers.Wait()
		if wins := count(won, rivals); wins != 1 || s.Newest().Number != round+1 {
			t.Fatalf("round %d: %d proposals won, and the newest version is %d", round, wins, s.Newest().Number)
		}
	}
	close(stop)
	readers.Wait()
}

func count(results <-chan bool, n int) (positive int) {
	for range n {
		if <-results {
			positive++
		}
	}
	return positive
}

// TestPreparedSetOfAnEarlierLeader checks that a prepared set does not become active with the text of another node.
func TestPreparedSetOfAnEarlierLeader(t *testing.T) {
	other, log := newLocal()
	v := propose(t, log, textOf("theirs"))
	s := NewStore()
	if _, err := s.Prepare(t.Context(), Proposal{Text: textOf("ours")}, testTime); err != nil {
		t.Fatal(err)
	}
	if !s.Activate(v, other.newest().packed) {
		t.Fatal("the version of the other node was not activated")
	}
	s.CompileNewest()
	if a := s.Active(); a.Version != 1 || a.Set.File().Domains[0].Limits[0].Name != "theirs" {
		t.Errorf("the active set is %+v, want that of the other node", a)
	}
}
