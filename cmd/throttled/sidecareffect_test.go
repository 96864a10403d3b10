package main

import (
	"strings"
	"testing"
	"time"
)

// effect is a key with a limit of 100 units, none of which is restored during a test, that a sidecar leases.
type effect struct {
	*testing.T
	up, side *process
	key      string
}

// effectLease is the lease time of the sidecar.
const effectLease = 200 * time.Millisecond

// command returns a request with a limit, and with a quantity if there is one.
func (e effect) command(burst int, quantity ...any) []any {
	return append([]any{"CL.THROTTLE", e.key, burst - 1, 1, 360_000}, quantity...)
}

// request sends a request to the sidecar, and reports whether it is admitted.
func (e effect) request() bool {
	e.Helper()
	time.Sleep(time.Millisecond) // the rate of the load
	return strings.HasPrefix(e.side.ask(e.command(100)...), "[0 ")
}

// until calls f until it returns true.
func (e effect) until(what string, f func() bool) {
	e.Helper()
	for end := time.Now().Add(patience); !f(); {
		if time.Now().After(end) {
			e.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// exhaust uses the limit up, until the sidecar repeats the refusals of the upstream and all leases have ended.
func (e effect) exhaust() {
	e.Helper()
	for e.request() {
	}
	before := e.side.infoField("sidecar", "lessee_refused")
	e.until("local refusals without leases", func() bool {
		e.request()
		return e.side.infoField("sidecar", "lessee_refused") > before && e.up.infoField("leases", "leases") == 0
	})
}

// TestProcess_SidecarEffects changes an exhausted limit on the upstream, while a sidecar repeats its refusals. The sidecar must refuse
// no request that is sent later than a lease time after the change. The lease time is counted from the reply to the change, so the
// test does not depend on the speed of the machine.
func TestProcess_SidecarEffects(t *testing.T) {
	up := newServer(t)
	side := newSidecarOf(t, []*process{up}, "--upstream-lease", "200", "--upstream-timeout", "60000")
	for name, change := range map[string]func(e effect){
		"DEL":            func(e effect) { e.up.mustDo("DEL", e.key) },
		"DEL by sidecar": func(e effect) { e.side.mustDo("DEL", e.key) },
		"a refund":       func(e effect) { e.up.mustDo(e.command(100, -50)...) },
		"a changed limit, until the next one": func(e effect) {
			for burst, want := range map[int]string{1000: "[0 1000 ", 10: "[1 10 0 "} { // other limits are not leased yet: the upstream decides
				if got := e.side.ask(e.command(burst)...); !strings.HasPrefix(got, want) {
					e.Errorf("a request with a limit of %d: got %s, want %s", burst, got, want)
				}
			}
			e.up.mustDo("DEL", e.key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := effect{t, up, side, "refused:" + name}
			e.exhaust()
			change(e)
			changed := time.Now()
			for sent := changed; !e.request(); sent = time.Now() {
				if late := sent.Sub(changed); late > effectLease {
					t.Fatalf("a request that was sent %v after the change is refused, want an admission after %v", late, effectLease)
				}
			}
		})
	}
}

// TestProcess_SidecarDeleteInHand deletes a key while a sidecar has units of it in hand. These stay charged: from then on, the sidecar and
// the upstream together admit at most the limit.
func TestProcess_SidecarDeleteInHand(t *testing.T) {
	up := newServer(t)
	e := effect{t, up, newSidecarOf(t, []*process{up}, "--upstream-timeout", "60000"), "k"}
	e.until("units in hand", func() bool {
		e.request()
		if e.side.infoField("sidecar", "lessee_units") == 0 {
			up.mustDo("DEL", e.key)
			return false
		}
		return true
	})
	up.mustDo("DEL", e.key)
	admitted, direct := 0, 0
	for range 100 {
		if e.request() {
			admitted++
		}
	}
	e.until("all units are used", func() bool {
		if strings.HasPrefix(up.ask(e.command(100)...), "[0 ") {
			direct++
			return false
		}
		if e.request() {
			admitted++
			return false
		}
		return true
	})
	local := e.side.infoField("sidecar", "lessee_admitted")
	if admitted+direct > 100 || admitted == 0 || local == 0 {
		t.Errorf("%d requests are admitted by the sidecar and %d by the upstream after the deletion, %d of all with leased units, want at most 100 and some", admitted, direct, local)
	}
}
