package buckets

import (
	"fmt"
	"testing"

	"github.com/throttledhq/throttled/limiter"
)

// onTables calls f with a table without an undo log, and with a leader.
func onTables(t *testing.T, f func(t *testing.T, table *Table)) {
	t.Run("standalone", func(t *testing.T) { f(t, New(Config{Clock: newFakeClock().read, Shards: 4})) })
	t.Run("leader", func(t *testing.T) {
		table, _ := leading(Config{Shards: 4})
		f(t, table)
		checkUndoLogs(t, table)
	})
}

// unchanged calls f, and checks that it changes neither the content nor the counter of changes of a table.
func unchanged(t *testing.T, table *Table, f func()) {
	t.Helper()
	before, changes, pending := contentOf(table), table.Usage().Changes, table.Pending()
	f()
	sameContent(t, "after a trial", contentOf(table), before)
	if n := table.Usage().Changes - changes; n != 0 || table.Pending() != pending {
		t.Errorf("a trial counts %d changes, Pending was %t and is %t", n, pending, table.Pending())
	}
}

// trial returns the same request as a trial.
func trial(req limiter.Request) limiter.Request {
	req.Trial = true
	return req
}

// TestTrial checks that a trial gets the decision of the charge that follows it, and changes nothing.
func TestTrial(t *testing.T) {
	onTables(t, func(t *testing.T, table *Table) {
		for _, quantity := range []int64{1, 2, -1, 0, 3, 2, 6, -9} {
			for _, req := range oneOfEachKind(quantity) {
				req.Linked = false
				var got limiter.Decision
				unchanged(t, table, func() { got = decideOne(table, trial(req)) })
				if want := decideOne(table, req); got != want {
					t.Errorf("%v, quantity %d: the trial is decided as %+v, the charge as %+v", req.Kind, quantity, got, want)
				}
			}
		}
	})
}

// TestTrial_WrongKind checks that a trial on a key of another kind fails.
func TestTrial_WrongKind(t *testing.T) {
	onTables(t, func(t *testing.T, table *Table) {
		reqs := oneOfEachKind(1)
		decideAll(table, reqs)
		req := trial(reqs[0])
		req.Key, req.Linked = reqs[1].Key, false
		unchanged(t, table, func() {
			if d := decideOne(table, req); d != (limiter.Decision{Err: limiter.WrongKindError(reqs[1].Kind)}) {
				t.Errorf("got %+v", d)
			}
		})
	})
}

// TestTrial_Group checks a group in which one request is a trial: all other requests are charged if the trial would be
// admitted, and none otherwise. The limits are 5 units.
func TestTrial_Group(t *testing.T) {
	onTables(t, func(t *testing.T, table *Table) {
		n := len(oneOfEachKind(0))
		for tried := range n {
			charged := oneOfEachKind(2)
			for i := range charged {
				charged[i].Key = fmt.Appendf(nil, "%d of group %d", i, tried)
			}
			decideAll(table, charged) // 3 remain
			reqs := append([]limiter.Request{}, charged...)
			reqs[tried].Trial = true
			decideAll(table, reqs)
			for i := range reqs {
				want := int64(4)
				if i == tried {
					want = 2
				}
				if got := used(table, reqs[i]); got != want {
					t.Errorf("request %d, trial %d: %d units used, want %d", i, tried, got, want)
				}
			}
			reqs[tried].Quantity = 4 // is refused
			for i := range reqs {
				if i != tried {
					reqs[i].Quantity = 1
				}
			}
			var out []limiter.Decision
			unchanged(t, table, func() { out = decideAll(table, reqs) })
			for i, d := range out {
				if d.Err != nil || d.Limited != (i == tried) || i != tried && d.Remaining != 1 {
					t.Errorf("request %d, refused trial %d: got %+v", i, tried, d)
				}
			}
		}
	})
}

// TestTrial_GroupOfTrials checks that a group of trials gets the decisions of the same group without trials, and changes
// nothing. If another request of the group is refused, an admitted trial is answered as a peek.
func TestTrial_GroupOfTrials(t *testing.T) {
	onTables(t, func(t *testing.T, table *Table) {
		for _, quantity := range []int64{2, 3, 1} {
			reqs := oneOfEachKind(quantity)
			trials := oneOfEachKind(quantity)
			for i := range trials {
				trials[i].Trial = true
			}
			refused := append([]limiter.Request{}, trials...)
			refused[0].Quantity = 6
			var got, peeks []limiter.Decision
			unchanged(t, table, func() { got, peeks = decideAll(table, trials), decideAll(table, refused) })
			for i := range refused[1:] {
				if want := decideOne(table, charge(reqs[i+1].Kind, string(reqs[i+1].Key), reqs[i+1].Limit, 0)); quantity != 1 && peeks[i+1] != want {
					t.Errorf("a trial in a refused group is decided as %+v, a peek as %+v", peeks[i+1], want)
				}
			}
			for i, want := range decideAll(table, reqs) {
				if got[i] != want {
					t.Errorf("quantity %d, request %d: the trial is decided as %+v, the charge as %+v", quantity, i, got[i], want)
				}
			}
		}
	})
}

// TestTrial_NoMemory checks that a trial on a new key is decided when a charge is refused for lack of memory.
func TestTrial_NoMemory(t *testing.T) {
	table := New(Config{Clock: newFakeClock().read, Shards: 1, MaxMemory: 400})
	fill(t, table, "key", slow)
	a, b := charge(limiter.Throttle, "new a", slow, 1), charge(limiter.Throttle, "new b", slow, 1)
	unchanged(t, table, func() {
		if d := decideOne(table, a); d.Err != limiter.ErrOutOfMemory {
			t.Fatalf("charge: got %+v, want ErrOutOfMemory", d)
		}
		for _, d := range decideAll(table, append(linked(trial(a), trial(b)), trial(a))) {
			if d.Err != nil || d.Limited || d.Remaining != slow.Max-1 {
				t.Errorf("trial: got %+v, want admitted", d)
			}
		}
		for _, d := range decideAll(table, linked(trial(a), b)) {
			if d.Err != limiter.ErrOutOfMemory {
				t.Errorf("trial and charge: got %+v, want ErrOutOfMemory", d)
			}
		}
	})
}

// TestTrial_Undo checks that charges are rolled back to the state before them, regardless of trials between them.
func TestTrial_Undo(t *testing.T) {
	table, _ := leading(Config{Shards: 4})
	reqs, trials := oneOfEachKind(1), oneOfEachKind(1)
	for i := range trials {
		trials[i].Trial = true
	}
	decideAll(table, reqs)
	commitAll(t, table)
	before := contentOf(table)
	decideAll(table, trials)
	if token := table.Decide(trials, make([]limiter.Decision, len(trials))); token.Generation != 0 {
		t.Errorf("trials on committed states have the token %+v, want generation 0", token)
	}
	if _, changes := table.Collect(nil); len(changes) != 0 {
		t.Errorf("trials are replicated as %d bytes", len(changes))
	}
	decideAll(table, reqs)
	decideAll(table, trials)
	decideAll(table, reqs)
	table.Follow()
	sameContent(t, "after a rollback", contentOf(table), before)
}
