package client

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/throttledhq/throttled/client/internal/testserver"
)

// TestAllowAll checks that a request charges all limits or none, with the server and in this process.
func TestAllowAll(t *testing.T) {
	rdb := dial(t, testserver.Start(t, "0").Addr)
	c := connect(t, rdb, Options{})
	const narrow = 3000
	charges := []Charge{
		{"wide", must(FixedWindow(1_000_000, 24*time.Hour))}, {"narrow", must(SlidingWindow(narrow, 24*time.Hour))},
		{"bucket", must(Bucket(1_000_000, 1000, 24*time.Hour))},
	}
	var admitted, local int64
	refused := false
	request := func() {
		ds, err := c.AllowAll(t.Context(), 1, charges...)
		if err != nil || len(ds) != len(charges) {
			t.Fatalf("%+v, %v, want a decision for each limit", ds, err)
		}
		switch d := Deciding(ds); {
		case d.Admitted && d.Source == FromLease:
			local++
			fallthrough
		case d.Admitted:
			admitted++
		case d != ds[1] || !ds[0].Admitted || !ds[2].Admitted:
			t.Errorf("the decisions are %+v, want a refusal by the second limit", ds)
		default:
			refused = true
		}
	}
	eventually(t, "90 % of the narrow limit are admitted, and a request is refused", func() bool {
		for range 20 {
			request()
		}
		return admitted >= narrow*9/10 && refused
	})
	if admitted > narrow || local == 0 {
		t.Errorf("%d requests are admitted, %d of them in this process, want at most %d, and some", admitted, local, narrow)
	}
	c.Close()
	d, err := parse(rdb.Do(t.Context(), charges[0].Limit.command("wide", 1)...).Val())
	if used := 1_000_000 - d.Remaining - 1; err != nil || used < admitted || used > admitted+int64(c.Stats().UnitsLost) {
		t.Errorf("%d units of the wide limit are charged, %v, want those of %d admissions", used, err, admitted)
	}
}

// TestAllowAll_Errors checks the numbers of limits, and that limits with one key are refused.
func TestAllowAll_Errors(t *testing.T) {
	c := connect(t, dial(t, testserver.Start(t, "0").Addr), Options{})
	limit := must(Throttle(9, 10, time.Second))
	var many []Charge
	for i := range 33 {
		many = append(many, Charge{fmt.Sprint(i), limit})
	}
	for name, want := range map[string]struct {
		charges []Charge
		err     error
	}{
		"no limit":   {nil, ErrLimit},
		"33 limits":  {many, ErrLimit},
		"32 limits":  {many[:32], nil},
		"one limit":  {many[:1], nil},
		"zero limit": {[]Charge{{"k", limit}, {"l", Limit{}}}, ErrLimit},
		"one key":    {[]Charge{{"k", limit}, {"k", limit}}, ErrServer},
	} {
		ds, err := c.AllowAll(t.Context(), 1, want.charges...)
		if !errors.Is(err, want.err) || err == nil && (len(ds) != len(want.charges) || !Deciding(ds).Admitted) {
			t.Errorf("%s: %+v, %v, want %v", name, ds, err, want.err)
		}
	}
}

// TestAway_Group checks that the policy Local charges all limits or none.
func TestAway_Group(t *testing.T) {
	a := newAway(Local, 0.5)
	charges := []Charge{{"wide", must(FixedWindow(100, time.Hour))}, {"narrow", must(FixedWindow(4, time.Hour))}}
	for i := range 4 {
		out := a.decide(charges, 1)
		if out[0].Limited || out[1].Limited != (i >= 2) {
			t.Errorf("request %d: the decisions are %+v, want 2 admissions", i, out)
		}
	}
	if d := a.decide(charges[:1], 1)[0]; d.Remaining != 47 {
		t.Errorf("%d units of the wide limit remain, want 47", d.Remaining)
	}
}

// TestDeciding checks which of two decisions decides.
func TestDeciding(t *testing.T) {
	full, low := Decision{Admitted: true, Remaining: 9, RetryAfter: -1}, Decision{Admitted: true, Remaining: 1, RetryAfter: -1}
	slow := Decision{Admitted: true, Remaining: 1, RetryAfter: -1, ResetAfter: 1}
	soon, late, never := Decision{RetryAfter: 1}, Decision{RetryAfter: 2}, Decision{RetryAfter: -1}
	for _, c := range [][2]Decision{{low, full}, {slow, low}, {soon, low}, {late, soon}, {never, late}, {never, full}} {
		for _, ds := range [][]Decision{{c[0], c[1]}, {c[1], c[0]}} {
			if got := Deciding(ds); got != c[0] {
				t.Errorf("of %+v, %+v decides, want %+v", ds, got, c[0])
			}
		}
	}
}
