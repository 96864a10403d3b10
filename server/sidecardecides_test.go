package server

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/throttledhq/throttled/limiter"
)

// TestSidecar_Decides checks that an engine which decides some limiter commands is asked first, and that all others are
// forwarded, in order.
func TestSidecar_Decides(t *testing.T) {
	t.Parallel()
	_, up, side := newSidecar(t, decidesPrefix("local"))
	p := side.dial()
	p.send(throttle("local1") + throttle("far") + request("TTL", "far") + throttle("local2") + throttle("far"))
	p.expect(five(0, 7, 6, -1, 0) + five(0, 3, 2, -1, 60) + ":60\r\n" + five(0, 7, 6, -1, 0) + five(0, 3, 1, -1, 120))
	up.dial().do(":1\r\n", "DBSIZE")
}

// TestSidecar_OldRules checks that a CL.CHECK is decided by the rules of the upstream if those of the sidecar may not be the newest,
// although units of their limits are in hand.
func TestSidecar_OldRules(t *testing.T) {
	t.Parallel()
	f, up, side := newSidecar(t, decidesPrefix("rule|"))
	setRules(t, up.rules.store, "version: 1\ndomain: d\nlimits: {a: {allow: 3 per 1m}}\n")
	setRules(t, side.rules.store, "version: 1\ndomain: d\nlimits: {a: {allow: 5 per 1m}}\n")
	p := side.dial()
	for _, tt := range []struct {
		old  bool
		want int64
	}{{false, 5}, {true, 3}} {
		f.oldRules.Store(tt.old)
		if v := p.ask("CL.CHECK", "d"); v.kind != '*' || v.list[1].int() != tt.want {
			t.Errorf("old rules %t: got %s, want the limit %d", tt.old, v.brief(), tt.want)
		}
	}
}

// decidesPrefix is an engine that decides requests and groups whose keys have a prefix.
type decidesPrefix string

func (e decidesPrefix) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	for from := 0; from < len(reqs); {
		end := from + 1
		for end < len(reqs) && reqs[end-1].Linked {
			end++
		}
		e.decideGroup(reqs[from:end], out[from:end])
		from = end
	}
	return limiter.CommitToken{}
}

func (e decidesPrefix) decideGroup(reqs []limiter.Request, out []limiter.Decision) {
	d := limiter.Decision{Limit: 7, Remaining: 6, RetryAfter: limiter.NoRetry}
	for i := range reqs {
		if !strings.HasPrefix(string(reqs[i].Key), string(e)) {
			d = limiter.Decision{Err: limiter.ErrNotLeading}
		}
	}
	for i := range out {
		out[i] = d
	}
}

// spending is a decidesPrefix that counts the requests that it decides.
type spending struct {
	decidesPrefix
	spent *atomic.Int32
}

func (e spending) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	defer func() {
		for i := range out {
			e.spent.Add(int32(countTrue(out[i].Err == nil)))
		}
	}()
	return e.decidesPrefix.Decide(reqs, out)
}

// TestSidecar_Whole checks that a CL.CHECK whose limits are charged each on its own is decided by the sidecar as a whole,
// or by the upstream as a whole: otherwise some of its limits would be charged twice, or a shadow limit not at all.
func TestSidecar_Whole(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"Envoy":        "version: 1\ndomain: d\nsemantics: envoy\nlimits:\n  a: {allow: 5 per 1m, algorithm: fixed}\n  b: {allow: 5 per 1h, algorithm: fixed}\n",
		"shadow limit": "version: 1\ndomain: d\nlimits:\n  a: {allow: 5 per 1m, algorithm: fixed}\n  b: {allow: 5 per 1h, algorithm: fixed, shadow: true}\n",
	} {
		t.Run(name, func(t *testing.T) {
			for prefix, want := range map[string]struct {
				spent int32
				keys  string
			}{"rule|d|a|": {0, ":2\r\n"}, "rule|d|b|": {0, ":2\r\n"}, "rule|d|": {2, ":0\r\n"}} {
				engine := spending{decidesPrefix(prefix), new(atomic.Int32)}
				_, up, side := newSidecar(t, engine)
				setRules(t, up.rules.store, text)
				setRules(t, side.rules.store, text)
				if v := side.dial().ask(words("CL.CHECK d")...); v.kind != '*' || v.list[0].int() != 0 {
					t.Errorf("units of %s in hand: got %s, want an admission", prefix, v.brief())
				}
				if got := engine.spent.Load(); got != want.spent {
					t.Errorf("units of %s in hand: the sidecar has spent %d, want %d", prefix, got, want.spent)
				}
				up.dial().do(want.keys, "DBSIZE")
			}
		})
	}
}

func (decidesPrefix) LastWrite() limiter.CommitToken                      { return limiter.CommitToken{} }
func (decidesPrefix) WaitCommitted(limiter.CommitToken) error             { return nil }
func (decidesPrefix) Usage() limiter.Usage                                { return limiter.Usage{} }
func (decidesPrefix) Leases(func(limiter.Lease) bool)                     {}
func (decidesPrefix) LeaseUsage() limiter.LeaseUsage                      { return limiter.LeaseUsage{} }
func (decidesPrefix) Lookup([]byte) (limiter.Entry, bool)                 { return limiter.Entry{}, false }
func (decidesPrefix) Delete([]byte) (bool, error)                         { return false, limiter.ErrNotLeading }
func (decidesPrefix) Scan(uint64, int, func([]byte, limiter.Kind)) uint64 { return 0 }
func (decidesPrefix) RandomKey(uint64) ([]byte, bool)                     { return nil, false }
func (decidesPrefix) Clear() error                                        { return limiter.ErrNotLeading }
