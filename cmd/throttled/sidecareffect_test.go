package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// leasedKey is a key with a limit of 100 units, none of which is restored during a test, that a sidecar leases.
type leasedKey struct {
	*testing.T
	up, side *process
	key      string
}

// effectLease is the lease time of the sidecar.
const effectLease = 200 * time.Millisecond

// command returns a request with a limit, and with a quantity if there is one.
func (e leasedKey) command(burst int, quantity ...any) []any {
	return append([]any{"CL.THROTTLE", e.key, burst - 1, 1, 360_000}, quantity...)
}

// request sends a request to the sidecar, and reports whether it is admitted.
func (e leasedKey) request() bool {
	e.Helper()
	time.Sleep(time.Millisecond) // the rate of the load
	return strings.HasPrefix(e.side.ask(e.command(100)...), "[0 ")
}

// exhaust uses the limit up, until the sidecar repeats the refusals of the upstream and all leases have ended. It then requests
// many units at once, so that the key stays in demand on a busy machine.
func (e leasedKey) exhaust() {
	e.Helper()
	for e.request() {
	}
	before := e.side.infoField("sidecar", "lessee_refused")
	until(e.T, "refusals are local and there are no leases", func() bool {
		if got := e.side.ask(e.command(100, 50)...); !strings.HasPrefix(got, "[1 ") {
			e.Fatalf("a request for half of an exhausted limit: got %s, want a refusal", got)
		}
		return e.side.infoField("sidecar", "lessee_refused") > before && e.up.infoField("leases", "leases") == 0
	})
}

// TestProcess_SidecarEffects changes an exhausted limit on the upstream, while a sidecar repeats its refusals. The sidecar
// must refuse no request that is sent later than a lease time after the change. The lease time is counted from the reply to
// the change, so the test does not depend on the speed of the machine.
func TestProcess_SidecarEffects(t *testing.T) {
	up := newServer(t)
	side := newSidecarOf(t, []*process{up}, "--upstream-lease", "200", "--upstream-timeout", "60000")
	for name, change := range map[string]func(e leasedKey){
		"DEL":            func(e leasedKey) { e.up.mustDo("DEL", e.key) },
		"DEL by sidecar": func(e leasedKey) { e.side.mustDo("DEL", e.key) },
		"a refund":       func(e leasedKey) { e.up.mustDo(e.command(100, -50)...) },
		"a changed limit, until the next one": func(e leasedKey) {
			for burst, want := range map[int]string{1000: "[0 1000 ", 10: "[1 10 0 "} { // other limits are not leased yet: the upstream decides
				if got := e.side.ask(e.command(burst)...); !strings.HasPrefix(got, want) {
					e.Errorf("a request with a limit of %d: got %s, want %s", burst, got, want)
				}
			}
			e.up.mustDo("DEL", e.key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := leasedKey{t, up, side, "refused:" + name}
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

// TestProcess_SidecarDeleteInHand deletes a key while a sidecar has units of it in hand. These stay charged: from then on,
// the sidecar and the upstream together admit at most the limit. A key whose units were not used after its deletion, since
// the lease ended too early, proves nothing: the test uses another one.
func TestProcess_SidecarDeleteInHand(t *testing.T) {
	up := newServer(t)
	e := leasedKey{t, up, newSidecarOf(t, []*process{up}, "--upstream-timeout", "60000"), ""}
	n := 0
	until(e.T, "units in hand are used after a deletion", func() bool {
		n++
		e.key = fmt.Sprintf("key:%d", n)
		return e.deleteInHand()
	})
}

// deleteInHand deletes the key while the sidecar has units of it in hand, checks the admissions from then on, and reports
// whether the sidecar has used the units after the deletion.
func (e leasedKey) deleteInHand() bool {
	e.Helper()
	for e.side.infoField("sidecar", "lessee_units") == 0 {
		if !e.request() {
			return false // the limit is exhausted
		}
	}
	before := e.side.infoField("sidecar", "lessee_admitted")
	e.up.mustDo("DEL", e.key)
	admitted, local := 0, false
	for i := range 100 {
		if e.request() {
			admitted++
		}
		if i == 0 { // a later request can be admitted by a new lease
			local = e.side.infoField("sidecar", "lessee_admitted") > before
		}
	}
	admitted += e.drain()
	if admitted > 100 || admitted == 0 {
		e.Errorf("%d requests are admitted by the sidecar and the upstream after the deletion, want at most 100 and some", admitted)
	}
	return local
}

// drain sends requests to the upstream and the sidecar until both refuse them, and returns the number of admissions.
func (e leasedKey) drain() (admitted int) {
	e.Helper()
	until(e.T, "all units are used", func() bool {
		if strings.HasPrefix(e.up.ask(e.command(100)...), "[0 ") || e.request() {
			admitted++
			return false
		}
		return true
	})
	return admitted
}
