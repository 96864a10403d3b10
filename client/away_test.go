package client

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"

	"github.com/throttledhq/throttled/client/internal/testserver"
)

// untilAway requests keys until the server counts as away, and returns the first flagged decision.
func untilAway(t *testing.T, c *Client, limit Limit) (d Decision) {
	t.Helper()
	eventually(t, "the server is away", func() bool {
		d = allow(t, c, "probe", limit)
		return d.Flagged && c.Stats().Away
	})
	return d
}

// timeout is the longest wait for the server in the tests in which it does not answer.
const timeout = 200 * time.Millisecond

// TestPolicies checks the decisions of each policy while the server is paused, and that the server decides again after it.
func TestPolicies(t *testing.T) {
	n := testserver.Start(t, "0")
	limit := must(FixedWindow(10, 24*time.Hour))
	for name, c := range map[string]struct {
		options  Options
		admitted int // of 20 requests
	}{
		"closed": {Options{Away: Closed}, 0},
		"open":   {Options{Away: Open}, 20},
		"local":  {Options{Away: Local, Share: 0.5}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Timeout = timeout
			client := connect(t, dial(t, n.Addr), c.options)
			eventually(t, "a decision of the server", func() bool { return !allow(t, client, name, limit).Flagged })
			n.Signal(t, syscall.SIGSTOP)
			d := untilAway(t, client, limit)
			if (d.Err == nil) || d.Source != FromPolicy || !errors.Is(d.Err, ErrTimeout) && !errors.Is(d.Err, ErrAway) {
				t.Errorf("the decision is %+v, want one with its reason", d)
			}
			admitted := 0
			for range 20 {
				switch d := allow(t, client, "away "+name, limit); {
				case !d.Flagged:
					t.Errorf("the decision is %+v, want a flagged one", d)
				case d.Admitted:
					admitted++
				case d.RetryAfter <= 0:
					t.Errorf("the refusal is %+v, want a time", d)
				}
			}
			if admitted != c.admitted {
				t.Errorf("%d of 20 requests are admitted, want %d", admitted, c.admitted)
			}
			n.Signal(t, syscall.SIGCONT)
			eventually(t, "a decision of the server after the pause", func() bool { return !allow(t, client, "back "+name, limit).Flagged })
			if s := client.Stats(); s.Flagged < 21 || s.Outages < 1 {
				t.Errorf("the counters are %+v, want the flagged decisions and the outage", s)
			}
		})
	}
}

// TestKill checks that requests are decided without the server after kill -9, and by the server as soon as it runs again.
func TestKill(t *testing.T) {
	n := testserver.Start(t, "0")
	c := connect(t, dial(t, n.Addr), Options{Timeout: timeout, Away: Open})
	limit := must(FixedWindow(10, 24*time.Hour))
	eventually(t, "a decision of the server", func() bool { return !allow(t, c, "k", limit).Flagged })
	n.Kill()
	if d := untilAway(t, c, limit); !d.Admitted {
		t.Errorf("the decision is %+v, want an admission", d)
	}
	port := n.Port(t)
	testserver.Start(t, port)
	eventually(t, "a decision of the server that was started again", func() bool { return !allow(t, c, "k", limit).Flagged })
	if d := allow(t, c, "k", limit); d.Flagged || d.Source != FromServer {
		t.Errorf("the decision is %+v, want one of the server", d)
	}
}

// TestPause_Lease checks that units in hand are spent while the server is paused, and not after their lease has ended.
func TestPause_Lease(t *testing.T) {
	n := testserver.Start(t, "0")
	c := connect(t, dial(t, n.Addr), Options{Timeout: timeout})
	limit := must(FixedWindow(1_000_000, 24*time.Hour))
	eventually(t, "units in hand", func() bool {
		allow(t, c, "k", limit)
		return c.Stats().Units > 50
	})
	n.Signal(t, syscall.SIGSTOP)
	defer n.Signal(t, syscall.SIGCONT)
	if d := allow(t, c, "k", limit); !d.Admitted || d.Source != FromLease {
		t.Errorf("the decision is %+v, want an admission with a unit of a lease", d)
	}
	eventually(t, "the end of the lease", func() bool { return c.Stats().Units == 0 })
	if d := allow(t, c, "k", limit); d.Admitted || !d.Flagged {
		t.Errorf("the decision after the end of the lease is %+v, want a refusal by the policy", d)
	}
}

// TestAway_Immediate checks that requests do not wait for a server that is known not to answer, in any number.
func TestAway_Immediate(t *testing.T) {
	n := testserver.Start(t, "0")
	c := connect(t, dial(t, n.Addr), Options{Timeout: timeout, Away: Open})
	limit := must(FixedWindow(10, 24*time.Hour))
	n.Signal(t, syscall.SIGSTOP)
	defer n.Signal(t, syscall.SIGCONT)
	untilAway(t, c, limit)
	const requests = 1000
	began := time.Now()
	for range requests {
		if d := allow(t, c, "k", limit); !d.Flagged {
			t.Fatalf("the decision is %+v, want a flagged one", d)
		}
	}
	if took := time.Since(began); took > requests*timeout/10 {
		t.Errorf("%d requests have taken %v, want much less than their timeouts", requests, took)
	}
	if n := len(c.upstream.slots) + len(c.upstream.probes); n > maxPipelines+maxProbes {
		t.Errorf("%d pipelines are pending, want at most %d", n, maxPipelines+maxProbes)
	}
}

// TestAway_Refusals checks the retry times of refusals without the server, that the policy Local refuses a key of another
// kind, and shares that are not numbers.
func TestAway_Refusals(t *testing.T) {
	a := newAway(Local, 1)
	throttle, window := must(Throttle(9, 10, time.Second)), must(FixedWindow(10, time.Hour))
	if d := a.decide([]Charge{{"k", throttle}}, 1)[0]; d.Limited {
		t.Errorf("the first decision is %+v, want an admission", d)
	}
	if d := a.decide([]Charge{{"k", window}}, 1)[0]; !d.Limited || d.RetryAfter != awayRetry {
		t.Errorf("the decision on a key of another kind is %+v, want a refusal", d)
	}
	half := newAway(Local, 0.5)
	for n, want := range map[int64]time.Duration{6: awayRetry, 11: limiter.NoRetry} {
		for _, a := range []away{half, newAway(Closed, 1)} {
			if d := a.decide([]Charge{{"k", throttle}}, n)[0]; !d.Limited || d.RetryAfter != want {
				t.Errorf("the decision on %d of 10 units is %+v, want a refusal with a retry time of %v", n, d, want)
			}
		}
	}
}

// TestClassify checks the meanings of errors of go-redis.
func TestClassify(t *testing.T) {
	for text, want := range map[string]replyClass{
		"LOADING no leader":     {ErrAway, true, true},
		"CLUSTERDOWN no leader": {ErrAway, true, true},
		"UNCERTAIN charged?":    {ErrTimeout, true, false},
		"BUSY overload":         {ErrBusy, true, false},
		"WRONGTYPE key 'k'":     {ErrWrongKind, false, false},
		"NOPERM no permission":  {ErrServer, false, false},
	} {
		got := classify(replyError(text))
		if !errors.Is(got.err, want.err) || got.undecided != want.undecided || got.away != want.away {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	if got := classify(syscall.ECONNREFUSED); !errors.Is(got.err, ErrAway) || !errors.Is(got.err, syscall.ECONNREFUSED) || !got.undecided || !got.away {
		t.Errorf("a refused connection: %+v, want ErrAway", got)
	}
}

// replyError is an error reply.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (replyError) RedisError() {}
