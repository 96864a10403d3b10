package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// ask returns the reply to a command, in the form of fmt.
func (p *process) ask(args ...any) string {
	p.t.Helper()
	reply, err := p.do(args...)
	if err != nil {
		p.t.Fatalf("%v: %v", args, err)
	}
	return fmt.Sprint(reply)
}

// infoField returns an integer field of a section of INFO.
func (p *process) infoField(section, name string) int64 {
	p.t.Helper()
	for _, line := range strings.Split(p.ask("INFO", section), "\r\n") {
		if value, found := strings.CutPrefix(line, name+":"); found {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				p.t.Fatalf("INFO %s: %s is %q, want an integer", section, name, value)
			}
			return n
		}
	}
	p.t.Fatalf("INFO %s has no field %s", section, name)
	return 0
}

// demand requests units of a limit of a key until stop is closed, from several connections, and returns the number of
// admitted requests.
func (p *process) demand(clients int, stop <-chan struct{}, command ...any) *atomic.Int64 {
	admitted := new(atomic.Int64)
	var running sync.WaitGroup
	p.t.Cleanup(running.Wait)
	for range clients {
		running.Go(func() {
			client := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, DisableIdentity: true, Protocol: 2, PoolSize: 1})
			defer func() { _ = client.Close() }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if reply, err := client.Do(context.Background(), command...).Result(); err == nil && strings.HasPrefix(fmt.Sprint(reply), "[0 ") {
					admitted.Add(1)
				}
			}
		})
	}
	return admitted
}

// TestProcess_SidecarLeases shares a limit among two sidecars and direct requests, kills one of the sidecars, and pauses the
// other. The admitted requests must be within the limit, and the sidecars must decide most requests locally.
func TestProcess_SidecarLeases(t *testing.T) {
	const burst, rate = 4000, 1000
	up := newServer(t)
	a, b := newSidecarOf(t, []*process{up}, "--upstream-lessee", "a"), newSidecarOf(t, []*process{up}, "--upstream-lessee", "b")
	command := []any{"CL.THROTTLE", "k", burst - 1, rate, 1}
	begin := time.Now()
	stop := make(chan struct{})
	admitted := []*atomic.Int64{a.demand(4, stop, command...), b.demand(4, stop, command...), up.demand(1, stop, command...)}
	wait := func(d time.Duration) { <-time.After(d) } // the duration of the load
	wait(1500 * time.Millisecond)
	if n := up.infoField("leases", "leases_granted_units"); n == 0 {
		t.Error("the upstream has granted no units")
	}
	for _, side := range []*process{a, b} {
		local, forwarded := side.infoField("sidecar", "lessee_admitted")+side.infoField("sidecar", "lessee_refused"), side.infoField("sidecar", "lessee_forwarded")
		if local < 4*forwarded {
			t.Errorf("a sidecar has decided %d requests, and forwarded %d", local, forwarded)
		}
	}
	a.kill()
	b.signal(syscall.SIGSTOP)
	wait(1200 * time.Millisecond) // longer than a lease
	b.signal(syscall.SIGCONT)
	total := func() (n int64) {
		for _, part := range admitted {
			n += part.Load()
		}
		return n
	}
	resumed := b.infoField("sidecar", "lessee_admitted")
	for end := time.Now().Add(patience); total() < burst || b.infoField("sidecar", "lessee_admitted") == resumed; wait(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d requests were admitted, %d of them by the sidecar that has been paused, want %d and more than before", total(), b.infoField("sidecar", "lessee_admitted"), burst)
		}
	}
	close(stop)
	if n, most := total(), burst+int64(time.Since(begin).Seconds()*rate)+1; n > most {
		t.Errorf("%d requests were admitted, want at most %d", n, most)
	}
}

// TestProcess_SidecarSpendsWithoutUpstream kills the upstream. The sidecar must admit requests with the units in hand, and
// refuse once they are spent.
func TestProcess_SidecarSpendsWithoutUpstream(t *testing.T) {
	up := newServer(t)
	side := newSidecarOf(t, []*process{up})
	command := []any{"CL.THROTTLE", "k", 99_999, 1000, 1}
	for side.infoField("sidecar", "lessee_units") < 50 {
		side.mustDo(command...)
	}
	up.kill()
	before := side.infoField("sidecar", "lessee_admitted")
	if reply := side.ask(command...); !strings.HasPrefix(reply, "[0 ") {
		t.Errorf("with units in hand the reply is %s, want an admission", reply)
	}
	if n := side.infoField("sidecar", "lessee_admitted"); n != before+1 {
		t.Errorf("%d requests were admitted locally, want %d", n, before+1)
	}
	side.askUntil("[1 100000 0 1 1]", command...)
}

// TestProcess_SidecarReturnsUnits stops a sidecar. It must return the units in hand before it exits.
func TestProcess_SidecarReturnsUnits(t *testing.T) {
	up := newServer(t)
	side := newSidecarOf(t, []*process{up})
	command := []any{"CL.THROTTLE", "k", 99_999, 1000, 1}
	for side.infoField("sidecar", "lessee_units") < 50 {
		side.mustDo(command...)
	}
	spent := side.infoField("sidecar", "lessee_admitted")
	side.signal(syscall.SIGTERM)
	side.waitExit(patience)
	granted, returned := up.infoField("leases", "leases_granted_units"), up.infoField("leases", "leases_returned_units")
	if granted != spent+returned {
		t.Errorf("%d units were granted, %d spent and %d returned, want all of them", granted, spent, returned)
	}
}

// TestProcess_SidecarFollowsRules decides CL.CHECK on a sidecar with the rules of its upstream, before and after they
// change, and after the sidecar has lost the permission to read them.
func TestProcess_SidecarFollowsRules(t *testing.T) {
	up := newServer(t)
	side := newSidecarOf(t, []*process{up})
	rules := func(allow string) string {
		return "version: 1\ndomain: shop\nlimits: {api: {per: user, allow: " + allow + "}}\n"
	}
	up.mustDo("CL.RULES", "SET", rules("60000 per minute"))
	side.askUntil("rules_version:1", "INFO", "rules")
	check := []any{"CL.CHECK", "shop", "user", "a"}
	for side.infoField("sidecar", "lessee_admitted") == 0 {
		if reply := side.ask(check...); !strings.HasPrefix(reply, "[0 60000 ") {
			t.Fatalf("the reply is %s, want an admission by a limit of 60000", reply)
		}
	}
	up.mustDo("CL.RULES", "SET", rules("3 per hour"))
	side.askUntil("limit:3 limited:1", check...)
	up.mustDo("CL.RULES", "SET", "version: 1\ndomain: blog\nlimits: {api: {allow: 7 per hour}}\n")
	side.askUntil("limit:7 limited:0", "CL.CHECK", "blog")

	up.mustDo("CL.RULES", "SET", rules("60000 per minute"))
	side.askUntil("limit:60000 limited:0", check...)
	up.mustDo("ACL", "SETUSER", "default", "-cl.rules|history")
	up.mustDo("CL.RULES", "SET", rules("2 per hour"))
	until(t, "the sidecar forwards requests after it may not ask for the rules any more", func() bool {
		for range 100 { // more requests than are forwarded while a key becomes in demand
			if !strings.HasPrefix(side.ask(check...), "[1 2 0 ") {
				return false
			}
		}
		return true
	})
}

// TestProcess_SidecarEnvoyRefusal sends requests with two limits of a domain of Envoy, each of which is charged on its own. The
// sidecar repeats refusals of one limit, and holds units of the other. It must forward the request as a whole, and spend
// nothing: the upstream charges both limits.
func TestProcess_SidecarEnvoyRefusal(t *testing.T) {
	up := newServer(t)
	side := newSidecarOf(t, []*process{up})
	up.mustDo("CL.RULES", "SET", `version: 1
domain: d
semantics: envoy
limits:
  ample: {when: {a: x}, allow: 1000000 per day, algorithm: fixed}
  used: {when: {u: x}, allow: 1 per 3650d, algorithm: fixed}
`)
	side.askUntil("rules_active_version:1", "INFO", "rules")
	count := func(name string) int64 { return side.infoField("sidecar", "lessee_"+name) }
	decidesItself := func(counter, attribute string) bool {
		before := count(counter)
		side.ask("CL.CHECK", "d", attribute, "x")
		return count(counter) == before+1
	}
	ready := func() bool { return decidesItself("refused", "u") && decidesItself("admitted", "a") }
	until(t, "the sidecar refuses by one limit and has units of the other, before and after a request with both", func() bool {
		for range 100 { // keeps both keys in demand
			if ready() {
				break
			}
		}
		admitted, refused, forwarded := count("admitted"), count("refused"), count("forwarded")
		if reply := side.ask("CL.CHECK", "d", "a", "x", "u", "x"); !strings.HasPrefix(reply, "[1 1 0 ") || !strings.Contains(reply, " used [] [[ample ") {
			t.Fatalf("got %s, want a refusal by the limit used", reply)
		}
		if a, r, f := count("admitted")-admitted, count("refused")-refused, count("forwarded")-forwarded; a != 0 || r != 0 || f != 2 {
			t.Fatalf("the sidecar has admitted %d limits of the request, refused %d and forwarded %d, want 0, 0 and 2", a, r, f)
		}
		return ready()
	})
}
