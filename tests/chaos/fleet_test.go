package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// TestSidecars runs the scenario sidecars for a short time, and the scenario shares: no limit is exceeded by nodes and sidecars
// together.
func TestSidecars(t *testing.T) {
	runUntilTimely(t, "-for", "12s", "sidecars", "sidecars-relaxed", "shares")
}

// TestSidecars_Control checks that a run finds admissions above the limits: the sidecars admit all requests without a reply.
func TestSidecars_Control(t *testing.T) {
	l, _ := openLab(t, "-for", "10s")
	if err := l.sidecarsWith(t.Context(), fleetPlan{count: fleetSize, args: []string{"--upstream-away", "open"}}, newSingles); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(l.out.findings, func(f finding) bool { return f.checker == "interval" }) {
		t.Errorf("findings: %v; want one of the check interval", l.out.findings)
	}
}

// TestLeasable checks that replies can be assigned to the keys by their limits.
func TestLeasable(t *testing.T) {
	seen := map[int64]string{}
	for _, k := range slices.Concat(leasable(), refunded()) {
		if other := seen[k.limit]; other != "" {
			t.Errorf("%s and %s have the limit %d, want different limits", k.of.Name, other, k.limit)
		}
		seen[k.limit] = k.of.Name
		if k.limit > k.of.Limit() {
			t.Errorf("%s has the limit %d, which is above the bound %d", k.of.Name, k.limit, k.of.Limit())
		}
		if r := k.request(2); r.words[1] != k.of.Name || r.op.Key != k.of {
			t.Errorf("request %v, want one for %s", r.words, k.of.Name)
		}
	}
}

// TestFleetLoadCounts checks that all decisions are counted, and that the history keeps those that were or may have been
// admitted.
func TestFleetLoadCounts(t *testing.T) {
	k := &history.Key{Name: "k", Count: 1, Period: time.Second}
	c, l := newLoyal(0, "", newClock(), 1), &fleetLoad{stop: func() {}}
	for range 2 {
		c.ops = append(c.ops,
			history.Op{Key: k, Quantity: 1}, history.Op{Key: k}, history.Op{Key: k, Quantity: 1, Outcome: history.Limited},
			history.Op{Key: k, Quantity: 1, Outcome: history.Unknown, Return: history.Never})
		l.count(c)
	}
	l.clients = []*client{c}
	if ops := l.end(); l.decided.Load() != 6 || l.limited.Load() != 2 || len(ops) != 4 {
		t.Errorf("%d decided, %d limited, %d kept; want 6, 2, 4", l.decided.Load(), l.limited.Load(), len(ops))
	}
}

// TestJudgeAdmissions checks that admissions of different sidecars count together.
func TestJudgeAdmissions(t *testing.T) {
	k := &history.Key{Name: "k", MaxBurst: 3, Count: 1, Period: time.Second}
	f := &fleet{cluster: &cluster{lab: &lab{out: &report{w: t.Output()}}}}
	var ops []history.Op
	for i := range int64(6) {
		ops = append(ops, history.Op{Key: k, Client: int(i), Quantity: 1, Call: i, Return: i + 1})
		findings := 0
		over := f.judgeAdmissions(ops, func(string) { findings++ })
		if want := max(0, int(i)-3); over != want || findings != min(1, want) {
			t.Errorf("%d admissions with a limit of 4: %d units over, %d findings; want %d units", i+1, over, findings, want)
		}
	}
}

// TestFleetPressure checks that a run without leases is reported.
func TestFleetPressure(t *testing.T) {
	good := leaseSums{drawn: 10, admitted: 5, refused: 1}
	if err := good.pressure(); err != nil {
		t.Errorf("%+v: %v, want no error", good, err)
	}
	for _, sums := range []leaseSums{{}, {drawn: 10, admitted: 5}, {drawn: 10, refused: 5}} {
		if err := sums.pressure(); err == nil {
			t.Errorf("%+v: no error, want one", sums)
		}
	}
	for _, tt := range []struct{ decided, limited int64 }{{5000, 10}, {5000, 0}, {999, 10}} {
		l := &fleetLoad{}
		l.decided.Store(tt.decided)
		l.limited.Store(tt.limited)
		if err := l.pressure(); (err == nil) != (tt.decided == 5000 && tt.limited > 0) {
			t.Errorf("%d decisions, %d refusals: error %v, want none only for enough of both", tt.decided, tt.limited, err)
		}
	}
	g := &groups{}
	g.singles.Store(5)
	for admitted, want := range map[uint64]bool{5: false, 6: true} {
		if err := g.pressure(&leaseSums{admitted: admitted}); (err == nil) != want {
			t.Errorf("%d admissions by sidecars, 5 requests of one limit: error %v", admitted, err)
		}
	}
}

// TestRepeat checks that a client stops when its context is done.
func TestRepeat(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	sent := 0
	newLoyal(0, "", newClock(), 1).repeat(ctx, time.Millisecond, func() {
		if sent++; sent == 3 {
			cancel()
		}
	})
	if sent < 3 {
		t.Errorf("%d requests were sent, want 3", sent)
	}
}
