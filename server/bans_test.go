package server

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/race"
)

// TestBans checks that refusals are counted, and that a ban follows.
func TestBans(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  login:
    when: {path: /login}
    per: [ip]
    allow: [1 per 1m, 100 per 1d]
    algorithm: fixed
    ban: {after: 3 per 1h, for: 2h}
  all: {allow: 100 per 1h, algorithm: fixed}
`)
	p := s.dial()
	const (
		admitted = "[0 1 0 -1 40 login [] [[login 1m 0 1 0 -1 40 []] [login 1d 0 100 99 -1 6400 []] [all 1h 0 100 99 -1 2800 []]] 1]"
		refused  = "[1 1 0 40 40 login [] [[login 1m 1 1 0 40 40 []] [login 1d 0 100 99 -1 6400 []] [all 1h 0 100 99 -1 2800 []]] 1]"
		banned   = "[1 1 0 7200 7200 login [banned] [[login 1m 1 1 0 7200 7200 [banned]] [login 1d 1 100 0 7200 7200 [banned]] [all 1h 0 100 99 -1 2800 []]] 1]"
	)
	p.checks("CL.CHECK d path /login ip a", admitted)
	for range 5 {
		p.checks("CL.CHECK d PEEK path /login ip a", admitted)
		p.checks("CL.CHECK d DRYRUN path /login ip a", refused)
	}
	p.checks("CL.CHECK d COST -1 path /other", "[0 100 100 -1 0 all [] [[all 1h 0 100 100 -1 0 []]] 1]")
	p.checks("CL.CHECK d path /other", "[0 100 99 -1 2800 all [] [[all 1h 0 100 99 -1 2800 []]] 1]")
	for range 3 {
		p.checks("CL.CHECK d path /login ip a", refused)
	}
	for range 5 {
		p.checks("CL.CHECK d path /login ip a", banned)
	}
	p.checks("CL.CHECK d PEEK path /login ip a", banned)
	p.checks("TYPE rule|d|login|ban|-|ip=a", "ban")
	p.checks("TTL rule|d|login|ban|-|ip=a", "7200")
	if got := p.ask(words("CL.CHECK d path /login ip b")...); got.list[0].int() != 0 {
		t.Errorf("another address got %s, want an admission", got.brief())
	}
	s.clock.advance(time.Hour)
	if got := p.ask(words("CL.CHECK d path /login ip a")...); got.list[3].int() != 3600 {
		t.Errorf("after an hour: got %s, want a ban for another hour", got.brief())
	}
	s.clock.advance(time.Hour)
	if got := p.ask(words("CL.CHECK d path /login ip a")...); got.list[0].int() != 0 {
		t.Errorf("after the ban: got %s, want an admission", got.brief())
	}
	for name, want := range map[string]int64{"rules_bans": 1, "rules_banned": 6} {
		if got := p.count("stats", name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

// TestBansOfReports checks that refusals before a report count, and that a report does not.
func TestBansOfReports(t *testing.T) {
	t.Parallel()
	s := startRules(t, "\nlimits:\n  a: {allow: 1 per 1m, charge: {status: [401]}, ban: {after: 2 per 1h, for: 1h}}\n  b: {when: {x: y}, allow: unlimited, ban: {after: 1 per 1h, for: 1h}}\n")
	p := s.dial()
	const full = "[1 1 0 60 60 a [report] [[a 1m 1 1 0 60 60 [report]]] 1]"
	p.ask(words("CL.REPORT d OUTCOME status=401")...)
	for range 3 {
		p.checks("CL.REPORT d OUTCOME status=401", "[1 1 0 -1 60 a [report] [[a 1m 1 1 0 -1 60 [report]]] 1]")
	}
	p.checks("CL.CHECK d", full)
	p.checks("CL.CHECK d", full)
	p.checks("CL.CHECK d", "[1 1 0 3600 3600 a [banned report] [[a 1m 1 1 0 3600 3600 [banned report]]] 1]")
	p.ask("DEL", "rule|d|a|ban|-")
	p.checks("CL.CHECK d", full)
	p.checks("DBSIZE", "1")
	p.ask("FLUSHALL")
	p.checks("CL.CHECK d x y", "[0 1 0 -1 60 a [report] [[a 1m 0 1 0 -1 60 [report]] [b unlimited "+unlimitedFive+" [unlimited]]] 1]")
}

// TestBansOfFollowers checks that the leader counts the refusals of forwarded requests.
func TestBansOfFollowers(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p, q := l.nodes["b"].dial(), l.nodes["a"].dial()
	q.checks("CL.CHECK d e x", "[0 1 0 -1 40 ban [] [[ban 1m 0 1 0 -1 40 []]] 1]")
	for range 2 {
		for _, c := range []*peer{p, q} {
			c.checks("CL.CHECK d e x", "[1 1 0 40 40 ban [] [[ban 1m 1 1 0 40 40 []]] 1]")
		}
	}
	for _, c := range []*peer{p, q} {
		c.checks("CL.CHECK d e x", "[1 1 0 3600 3600 ban [banned] [[ban 1m 1 1 0 3600 3600 [banned]]] 1]")
	}
}

func TestRefusals(t *testing.T) {
	var r refusals
	f := func(want bool, key string, limit int64, now time.Duration) {
		t.Helper()
		if got := r.add([]byte(key), limit, time.Hour, now); got != want {
			t.Errorf("refusal of %s at %v with limit %d: got %v, want %v", key, now, limit, got, want)
		}
	}
	f(true, "one", 1, 0)
	f(true, "one", 1, 0)
	f(false, "a", 3, 0)
	f(false, "a", 3, time.Minute)
	f(false, "b", 3, time.Minute)
	f(true, "a", 3, time.Hour-1)
	f(false, "a", 3, time.Hour-1) // counting starts again
	f(false, "b", 3, time.Hour+time.Minute-1)
	f(false, "b", 3, time.Hour+time.Minute) // the hour of the first refusal is over
	f(false, "b", 3, 2*time.Hour)
	f(true, "b", 3, 2*time.Hour)
	for _, want := range []bool{false, true} { // the end of the period is out of range
		if got := r.add([]byte("c"), 2, math.MaxInt64, time.Hour); got != want {
			t.Errorf("a refusal in the longest period: got %v, want %v", got, want)
		}
	}
}

// TestRefusalsAreBounded checks that a flood of keys does not displace a key with more refusals.
func TestRefusalsAreBounded(t *testing.T) {
	var r refusals
	for range 9 {
		r.add([]byte("often"), 10, time.Hour, 0)
	}
	for i := range 10 * refusalSlots {
		r.add(fmt.Append(nil, "once", i), 10, time.Hour, 0)
	}
	if !r.add([]byte("often"), 10, time.Hour, 0) {
		t.Error("a flood of other keys has displaced a key with more refusals")
	}
	if len(r.slots) != refusalSlots {
		t.Errorf("there are %d slots, want %d", len(r.slots), refusalSlots)
	}
}

// TestBansSpareUnlimited checks that a ban does not refuse requests whose amounts are unlimited.
func TestBansSpareUnlimited(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  a:
    allow: 1 per 1m
    ban: {after: 1 per 1h, for: 1h}
    overrides: [{when: {user: staff}, allow: unlimited}, {when: {user: blocked}, allow: none}]
`)
	p := s.dial()
	p.ask(words("CL.CHECK d")...)
	p.ask(words("CL.CHECK d")...)
	p.checks("CL.CHECK d", "[1 1 0 3600 3600 a [banned] [[a 1m 1 1 0 3600 3600 [banned]]] 1]")
	p.checks("CL.CHECK d user staff", "["+unlimitedFive+" a [] [[a unlimited "+unlimitedFive+" [unlimited]]] 1]")
	p.checks("CL.CHECK d user blocked", "[1 0 0 -1 3600 a [banned] [[a none 1 0 0 -1 3600 [banned]]] 1]")
}

// TestRetryOfBans checks the times in the reply to a banned client: after retry_after, the request is admitted.
func TestRetryOfBans(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  short: {when: {a: short}, allow: 1 per 1h, algorithm: fixed, ban: {after: 1 per 1h, for: 100s}}
  long: {when: {a: long}, allow: 1 per 1h, algorithm: fixed, ban: {after: 1 per 1h, for: 2h}}
  jitter: {when: {a: jitter}, allow: [1 per 1m, 9 per 1h], algorithm: fixed, retry_jitter: 50%, ban: {after: 1 per 1h, for: 2h}}
  queue: {when: {a: queue}, allow: 2 per 1h, algorithm: leaky, ban: {after: 1 per 1h, for: 2h}}
`)
	p := s.dial()
	for _, name := range []string{"short", "long", "jitter", "queue", "queue"} {
		p.ask(words("CL.CHECK d a " + name)...)
	}
	for _, name := range []string{"short", "long", "jitter", "queue"} { // this refusal begins the ban
		p.ask(words("CL.CHECK d a " + name)...)
	}
	for _, row := range []struct{ options, name, want string }{
		{"", "short", "[1 1 0 2800 2800 short [banned] [[short 1h 1 1 0 2800 2800 [banned]]] 1]"},
		{"COST 2", "short", "[1 1 0 -1 2800 short [banned] [[short 1h 1 1 0 -1 2800 [banned]]] 1]"},
		{"", "long", "[1 1 0 7200 7200 long [banned] [[long 1h 1 1 0 7200 7200 [banned]]] 1]"},
		{"COST 2", "long", "[1 1 0 -1 7200 long [banned] [[long 1h 1 1 0 -1 7200 [banned]]] 1]"},
		{"", "jitter", "[1 1 0 9000 9000 jitter [banned] [[jitter 1m 1 1 0 9000 9000 [banned]] [jitter 1h 1 9 0 9000 9000 [banned]]] 1]"},
		{"COST 2", "jitter", "[1 1 0 -1 7200 jitter [banned] [[jitter 1m 1 1 0 -1 7200 [banned]] [jitter 1h 1 9 0 9000 9000 [banned]]] 1]"},
		{"PEEK", "queue", "[1 2 0 7200 7200 queue [banned] [[queue 1h 1 2 0 7200 7200 [banned] -1]] 1]"},
	} {
		p.checks(strings.Join(strings.Fields("CL.CHECK d "+row.options+" a "+row.name), " "), row.want)
	}
	s.clock.advance(2800 * time.Second)
	p.checks("CL.CHECK d a short", "[0 1 0 -1 3600 short [] [[short 1h 0 1 0 -1 3600 []]] 1]")
}

// TestBansOfPossibleRequests checks that refusals of requests that a limit can never admit are not counted.
func TestBansOfPossibleRequests(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  a:
    per: [ip]
    allow: [2 per 1m, 3 per 1h]
    algorithm: fixed
    ban: {after: 2 per 1h, for: 1h}
    overrides: [{when: {mode: closed}, allow: none}]
`)
	p := s.dial()
	for i, row := range []struct {
		line string
		bans int64 // begun up to then
	}{
		{"ip 1 mode closed", 0},
		{"ip 1 mode closed", 0},
		{"COST 4 ip 1", 0},
		{"COST 9 ip 1", 0},
		{"COST 2 ip 1", 0}, // admitted
		{"ip 1", 0},
		{"ip 1 mode closed", 0},
		{"COST 4 ip 1", 0},
		{"COST 3 ip 1", 0}, // the second amount can admit it later, the first one never
		{"COST 2 ip 1", 1},
	} {
		p.ask(words("CL.CHECK d " + row.line)...)
		if got := p.count("stats", "rules_bans"); got != row.bans {
			t.Errorf("after request %d, %s: rules_bans is %d, want %d", i, row.line, got, row.bans)
		}
	}
}

// TestRefundsAreAdmitted checks that neither a ban nor the amount "none" refuses a refund, and that the units of all other
// limits are returned.
func TestRefundsAreAdmitted(t *testing.T) {
	t.Parallel()
	s := startRules(t, `
limits:
  b: {when: {b: x}, allow: 2 per 1m, algorithm: fixed}
  p: {when: {p: x}, per: [ip], allow: 2 per 1h, algorithm: fixed, ban: {after: 1 per 1h, for: 1h}}
  n: {when: {n: x}, allow: none}
`)
	p := s.dial()
	for _, line := range []string{"b x p x ip 1", "p x ip 1", "p x ip 1"} { // the third request is refused, and begins a ban
		p.ask(words("CL.CHECK d " + line)...)
	}
	const banned = "[1 2 0 3600 3600 p [banned] [[p 1h 1 2 0 3600 3600 [banned]]] 1]"
	for _, row := range []struct{ line, want string }{
		{"CL.CHECK d PEEK p x ip 1", banned},
		{"CL.CHECK d PEEK COST -1 p x ip 1", banned},
		{"CL.CHECK d DRYRUN COST -1 p x ip 1", "[0 2 1 -1 2800 p [] [[p 1h 0 2 1 -1 2800 []]] 1]"},
		{"CL.CHECK d COST -1 b x p x ip 1", "[0 2 1 -1 2800 p [] [[b 1m 0 2 2 -1 0 []] [p 1h 0 2 1 -1 2800 []]] 1]"},
		{"CL.CHECK d COST -1 n x", "[0 0 0 -1 0 n [] [[n none 0 0 0 -1 0 []]] 1]"},
		{"CL.CHECK d COST -1 p x ip 1 n x", "[0 0 0 -1 0 n [] [[p 1h 0 2 2 -1 0 []] [n none 0 0 0 -1 0 []]] 1]"},
		{"CL.CHECK d PEEK n x", "[1 0 0 -1 0 n [] [[n none 1 0 0 -1 0 []]] 1]"},
		{"CL.CHECK d PEEK p x ip 1", banned},
		{"DBSIZE", "1"}, // the ban
	} {
		p.checks(row.line, row.want)
	}
}

// TestBansOfBatches checks that the refusals of one batch begin one ban, and that those after its begin are not counted.
func TestBansOfBatches(t *testing.T) {
	t.Parallel()
	s := startRules(t, "\nlimits:\n  a: {allow: 1 per year, per: [ip], algorithm: fixed, ban: {after: 3 per 10h, for: 1h}}\n")
	p := s.dial()
	f := func(want int64, before, after string) {
		t.Helper()
		p.send(before + strings.Repeat(request(words("CL.CHECK d ip a")...), 19) + request(words("CL.CHECK d ip b")...) + after)
		for range 21 + countTrue(before != "") {
			p.read()
		}
		if got := p.count("stats", "rules_bans"); got != want {
			t.Errorf("rules_bans is %d, want %d", got, want)
		}
	}
	f(1, request("MULTI"), request("EXEC"))
	s.clock.advance(2 * time.Hour)
	for want := range int64(4) { // the second client has not been refused
		if got := p.count("stats", "rules_bans"); got != 1+want/3 {
			t.Errorf("after %d refusals: rules_bans is %d, want %d", want, got, 1+want/3)
		}
		p.ask(words("CL.CHECK d ip a")...)
	}
	s.clock.advance(2 * time.Hour)
	f(3, "", ping)
}

// TestBansOfConcurrentBatches checks that a ban is counted once if several batches were decided before its begin.
func TestBansOfConcurrentBatches(t *testing.T) {
	t.Parallel()
	s := startRules(t, "\nlimits:\n  a: {allow: 1 per year, algorithm: fixed, ban: {after: 2 per 10h, for: 1h}}\n")
	var group sync.WaitGroup
	for range 8 {
		p := s.dial()
		group.Go(func() {
			p.send(strings.Repeat(request(words("CL.CHECK d")...), 20))
			for range 20 {
				p.read()
			}
		})
	}
	group.Wait()
	if got := s.dial().count("stats", "rules_bans"); got != 1 {
		t.Errorf("rules_bans is %d, want 1", got)
	}
}

// TestRefusalsOfThePast checks that keys whose period has ended do not displace others, however many refusals they had.
func TestRefusalsOfThePast(t *testing.T) {
	const old, attackers, limit = 40_000, 4096, 100 / race.Factor
	var r refusals
	for range limit - 1 {
		for i := range old {
			r.add(fmt.Append(nil, "old", i), limit, time.Hour, 0)
		}
	}
	banned := 0
	for range limit {
		for i := range attackers {
			banned += countTrue(r.add(fmt.Append(nil, "attacker", i), limit, time.Hour, 10*time.Hour))
		}
	}
	if banned < attackers*98/100 || banned > attackers {
		t.Errorf("%d of %d keys have reached the limit, want almost all", banned, attackers)
	}
}
