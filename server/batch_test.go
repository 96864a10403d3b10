package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
)

// recorder is a list of numbers recorded by an engine.
type recorder struct {
	mu   sync.Mutex
	list []int64
}

func (r *recorder) note(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, n)
}

func (r *recorder) noted() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// echoEngine is an engine whose decisions repeat values of their requests, so that a test can match replies with
// commands. It records the size of each batch.
type echoEngine struct {
	limiter.Engine
	t     testing.TB
	sizes *recorder
}

func newEchoEngine(t testing.TB) echoEngine {
	return echoEngine{buckets.New(buckets.Config{Shards: 1}), t, new(recorder)}
}

func (e echoEngine) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	e.sizes.note(int64(len(reqs)))
	group := 0
	for i := range reqs {
		group++
		if group > limiter.MaxGroup || reqs[i].Linked && i == len(reqs)-1 {
			e.t.Errorf("a group was split, or is too large: request %d of %d", i, len(reqs))
		}
		if !reqs[i].Linked {
			group = 0
		}
		out[i] = limiter.Decision{Limit: reqs[i].Limit.Max, Remaining: reqs[i].Quantity, RetryAfter: limiter.NoRetry, Wait: time.Second}
	}
	return limiter.CommitToken{}
}

// six renders the reply for a decision of a leaky bucket.
func six(limited, limit, remaining, retryAfter, resetAfter, wait int64) string {
	return "*6" + strings.TrimPrefix(five(limited, limit, remaining, retryAfter, resetAfter), "*5") + fmt.Sprintf(":%d\r\n", wait)
}

// all renders a reply of CL.ALL. The slice each contains the rendered replies for the limits. The reply begins with
// the first five integers of each[deciding].
func all(deciding int, each ...string) string {
	_, integers, _ := strings.Cut(each[deciding], "\r\n")
	integers = strings.Join(strings.SplitAfterN(integers, "\r\n", 6)[:5], "")
	return fmt.Sprintf("*%d\r\n", 5+len(each)) + integers + strings.Join(each, "")
}

// randomAll returns a CL.ALL command with n limits, and the reply to the command if an echoEngine decides it.
func randomAll(rnd *rand.Rand, n int, id *int64) (call, want string) {
	args, each, deciding := []string{"CL.ALL", "7"}, make([]string, n), 0
	for i := range n {
		*id++
		number := strconv.FormatInt(*id, 10)
		if rnd.IntN(2) == 0 {
			args = append(args, "WINDOW", "k"+number, number, "60")
			each[i] = five(0, *id, 7, -1, 0)
		} else {
			args = append(args, "LEAKY", "k"+number, number, "1", "60")
			each[i] = six(0, *id, 7, -1, 0, 1000)
		}
	}
	return request(args...), all(deciding, each...)
}

// TestGroupsAreNotSplit pipelines commands for one limit and for many limits, in random order. Each command must get
// its own reply, in order, and no group may be split over two batches.
func TestGroupsAreNotSplit(t *testing.T) {
	t.Parallel()
	m := newEchoEngine(t)
	p := setup{engine: m}.start(t).dial()
	rnd := rand.New(rand.NewPCG(1, 2))
	id := int64(0)
	for range 200 {
		var input, want strings.Builder
		for range 1 + rnd.IntN(20) {
			n := []int{1, 2, 3, 31, 32, 1 + rnd.IntN(32)}[rnd.IntN(6)]
			if rnd.IntN(2) == 0 {
				call, reply := randomAll(rnd, n, &id)
				input.WriteString(call)
				want.WriteString(reply)
				continue
			}
			for range 2 * n {
				id++
				input.WriteString(request("CL.WINDOW", "k", strconv.FormatInt(id, 10), "60", "3"))
				want.WriteString(five(0, id, 3, -1, 0))
			}
		}
		p.send(input.String())
		p.expect(want.String())
	}
	if largest := slices.Max(m.sizes.noted()); largest != batchSize {
		t.Errorf("the largest batch has %d requests, want %d", largest, batchSize)
	}
}

// TestCommandsShareABatch checks that consecutive limiter commands are passed to the engine in one
// batch and are counted separately.
func TestCommandsShareABatch(t *testing.T) {
	t.Parallel()
	m := newEchoEngine(t)
	s := setup{engine: m}.start(t)
	p := s.dial()
	p.send(request("CL.THROTTLE", "k", "9", "1", "60") + request("CL.BUCKET", "b", "5", "1", "60", "2") +
		request("CL.ALL", "4", "WINDOW", "w", "6", "60", "WINDOW", "x", "5", "60") + request("CL.LEAKY", "l", "8", "1", "60") +
		request("CL.WINDOW", "w", "x", "60") + request("CL.THROTTLE", "k", "9", "1", "60", "0"))
	p.expect(five(0, 10, 1, -1, 0) + five(0, 5, 2, -1, 0) + all(0, five(0, 6, 4, -1, 0), five(0, 5, 4, -1, 0)) +
		six(0, 8, 1, -1, 0, 1000) + failure(errInvalid("limit", []byte("x"), "a 64-bit integer of at least 1")) + five(0, 10, 0, -1, 0))
	if got := fmt.Sprint(m.sizes.noted()); got != "[5 1]" {
		t.Errorf("got batches of %s requests, want [5 1]", got)
	}
	for name, want := range map[string]string{
		"throttle": "calls=2,", "bucket": "calls=1,", "all": "calls=1,", "leaky": "calls=1,", "window": "calls=1,",
	} {
		if got := p.info("commandstats")["cmdstat_cl."+name]; !strings.HasPrefix(got, want) {
			t.Errorf("commandstats of cl.%s: got %s, want %s at the beginning", name, got, want)
		}
	}
}

// TestGroupErrors checks that a group that fails gets one error reply, and that each command counts as a failed call.
func TestGroupErrors(t *testing.T) {
	t.Parallel()
	for err, reply := range map[error]replyError{
		limiter.ErrSameKey: errSameKey, limiter.ErrWrongKind: errWrongType, limiter.ErrOutOfMemory: errOutOfMemory,
	} {
		p := setup{engine: failing{buckets.New(buckets.Config{Shards: 1}), err}}.start(t).dial()
		call := request("CL.ALL", "1", "WINDOW", "a", "1", "60", "BUCKET", "b", "1", "1", "60")
		p.send(call + ping + call)
		p.expect(failure(reply) + "+PONG\r\n" + failure(reply))
		if got := p.info("commandstats")["cmdstat_cl.all"]; !strings.HasPrefix(got, "calls=2,") || !strings.HasSuffix(got, "failed_calls=2") {
			t.Errorf("%v: commandstats of cl.all is %s, want calls=2 and failed_calls=2", err, got)
		}
	}
}

// TestSlowGroups checks the slow log entries of limiter commands.
func TestSlowGroups(t *testing.T) {
	t.Parallel()
	p := setup{engine: newEchoEngine(t), options: func(o *options.Options) { o.SlowlogLogSlowerThan = 0 }}.start(t).dial()
	f := func(want, input string, replies int) {
		t.Helper()
		p.send(input)
		for range replies {
			p.read()
		}
		if got := strings.Join(p.ask("SLOWLOG", "GET", "1").list[0].list[3].words(), " "); got != want {
			t.Errorf("the slow log shows %q, want %q", got, want)
		}
	}
	group := request("CL.ALL", "1", "WINDOW", "a", "1", "60", "WINDOW", "b", "1", "60")
	f("cl.window a", request("CL.WINDOW", "a", "1", "60"), 1)
	f("cl.all a b", group, 1)
	f("cl.all a b ... (and other commands of the batch)", group+request("CL.WINDOW", "c", "1", "60"), 2)
}

// limiting is an engine that refuses all requests.
type limiting struct{ limiter.Engine }

func (limiting) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	for i := range reqs {
		out[i] = limiter.Decision{Limited: true, Limit: reqs[i].Limit.Max, RetryAfter: 1500 * time.Millisecond, ResetAfter: 2 * time.Second, Wait: limiter.NoRetry}
	}
	return limiter.CommitToken{}
}

// TestLimitedCalls checks that a refused group counts as one refused decision, and that the times in replies are in
// the requested unit.
func TestLimitedCalls(t *testing.T) {
	t.Parallel()
	p := setup{engine: limiting{buckets.New(buckets.Config{Shards: 1})}}.start(t).dial()
	p.do(five(1, 3, 0, 2, 2), "CL.WINDOW", "a", "3", "60")
	p.do(five(1, 3, 0, 1500, 2000), "CL.WINDOW", "a", "3", "60", "MS")
	p.do(six(1, 3, 0, 2, 2, -1), "CL.LEAKY", "a", "3", "1", "60")
	p.do(all(0, five(1, 3, 0, 2, 2), six(1, 4, 0, 2, 2, -1)), "CL.ALL", "1", "WINDOW", "a", "3", "60", "LEAKY", "b", "4", "1", "60")
	p.do(all(0, five(1, 3, 0, 1500, 2000), five(1, 4, 0, 1500, 2000)), "CL.ALL", "1", "WINDOW", "a", "3", "60", "WINDOW", "b", "4", "60", "MS")
	p.await("stats", "limited_decisions", 5)
}

// TestWindowLogEntries checks that CONFIG SET window-log-max-entries takes effect immediately, even within a pipeline.
func TestWindowLogEntries(t *testing.T) {
	t.Parallel()
	var entries recorder
	p := setup{engine: amounts{buckets.New(buckets.Config{Shards: 1}), &entries}}.start(t).dial()
	call := request("CL.WINDOW", "a", "3", "60", "LOG") + request("CL.ALL", "1", "WINDOW", "a", "3", "60", "LOG")
	p.send(call + request("CONFIG", "SET", "window-log-max-entries", "5") + call)
	for range 5 {
		p.read()
	}
	if got := fmt.Sprint(entries.noted()); got != "[8192 8192 5 5]" {
		t.Errorf("the engine got the entry limits %s, want [8192 8192 5 5]", got)
	}
}

// amounts is an engine that records the Amount of each limit. For a window log, Amount is the maximum number of
// entries.
type amounts struct {
	limiter.Engine
	seen *recorder
}

func (e amounts) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	for i := range reqs {
		e.seen.note(reqs[i].Limit.Amount)
		out[i] = limiter.Decision{}
	}
	return limiter.CommitToken{}
}
