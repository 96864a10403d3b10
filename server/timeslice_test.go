package server

import (
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
)

// slowEngine is an engine whose calls of Decide take longer than a time slice.
type slowEngine struct {
	*buckets.Table
	calls *atomic.Int64
}

func newSlowEngine() slowEngine {
	return slowEngine{buckets.New(buckets.Config{Shards: 8}), new(atomic.Int64)}
}

func (e slowEngine) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	e.calls.Add(1)
	for begin := time.Now(); time.Since(begin) < 2*sliceTime; { // busy, so that the processor is in use
	}
	return e.Table.Decide(reqs, out)
}

// long contains commands whose client uses up at least one time slice of a slowEngine.
var long = strings.Repeat(throttle("k"), 3*batchSize)

// noLong reports an error if a client is counted as one that has used up a time slice.
func noLong(t *testing.T, s *Server, when string) {
	t.Helper()
	if n := s.polls.long.Load(); n != 0 {
		t.Errorf("%s: %d clients count as long pipelines, want 0", when, n)
	}
}

func TestTimeSlice(t *testing.T) {
	t.Parallel()
	var s timeSlice
	var q pollQueue // clients only yield
	const us = time.Microsecond
	for i, step := range []struct {
		now  time.Duration
		over bool
	}{
		{5 * us, false}, // begins the slice
		{5*us + sliceTime, false},
		{6*us + sliceTime, true},
	} {
		if over := s.over(step.now); over != step.over {
			t.Errorf("reading %d at %v: over is %t, want %t", i, step.now, over, step.over)
		}
	}
	s.yield(&q)
	s.restart(time.Second)
	if !s.over(time.Second + sliceTime + us) {
		t.Error("the first reading after a yield does not include the commands since the yield")
	}
	s.yield(&q)
	if n := q.long.Load(); n != 1 {
		t.Errorf("after two yields of a client, %d clients are counted, want 1", n)
	}
	s.end(&q)
	if n := q.long.Load(); n != 0 || s != (timeSlice{}) {
		t.Errorf("after the end, %d clients are counted and the slice is %+v, want none and the zero value", n, s)
	}
}

// TestPipeline_Yield checks that a client whose commands take longer than a time slice yields between them, and that a client
// with few commands does not. On a busy machine, the client also yields after parsing.
func TestPipeline_Yield(t *testing.T) {
	t.Parallel()
	s := setup{engine: newSlowEngine()}.build(t)
	defer (&testServer{Server: s}).end()
	for _, tt := range []struct {
		input string
		least int // the number of yields; 0 means none
	}{
		{strings.Repeat(throttle("k"), clockEvery), 0},
		{long, 2},
	} {
		c, e := detached(t, s), newEventLoop()
		e.feed(t, c, tt.input)
		e.run()
		got := e.needs[c]
		other := slices.ContainsFunc(got, func(n need) bool { return n != needYield })
		if len(got) < tt.least || tt.least == 0 && len(got) > 0 || other {
			t.Errorf("%d bytes: the pipeline waited for the needs %v, want at least %d, all of them needYield", len(tt.input), got, tt.least)
		}
	}
}

// TestPipeline_NoYieldAfterLast checks that a client that has used up its time slice does not yield if all its commands have
// begun, since their replies are not written yet.
func TestPipeline_NoYieldAfterLast(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	c, e := detached(t, s.Server), newEventLoop()
	c.pipe.slice.restart(-time.Hour) // it is used up at the first reading
	e.feed(t, c, strings.Repeat(ping, clockEvery-1))
	if got := e.needs[c]; len(got) > 0 {
		t.Errorf("the pipeline waited for the needs %v, want none", got)
	}
}

// TestPipeline_WaitEndsSlice checks that a client that waits for anything but other clients does not count as a long pipeline.
func TestPipeline_WaitEndsSlice(t *testing.T) {
	t.Parallel()
	s := setup{engine: newSlowEngine()}.start(t)
	c, e := detached(t, s.Server), newEventLoop()
	e.feed(t, c, long+request("KEYS", "none"))
	e.run()
	if got := e.needs[c]; !slices.Contains(got, needYield) || !slices.Contains(got, needCommand) {
		t.Errorf("the pipeline waited for the needs %v, want needYield and needCommand among them", got)
	}
	noLong(t, s.Server, "after the wait for KEYS")
}

// TestCaller_NoYield checks that the commands of a Caller that are run one at a time do not count as a pipeline.
func TestCaller_NoYield(t *testing.T) {
	t.Parallel()
	s := setup{engine: newSlowEngine()}.start(t)
	c := callerOf(t, s.Server)
	for range 100 {
		if _, err := c.Run([]byte(throttle("k")), nil); err != nil {
			t.Fatalf("Run: %v", err)
		}
		if slice := c.client.pipe.slice; slice != (timeSlice{}) {
			t.Fatalf("after a command, the time slice is %+v, want the zero value", slice)
		}
	}
	noLong(t, s.Server, "after the commands")
}

// TestConnection_NoYieldWithoutDescriptor is like TestCaller_NoYield, for a connection without a descriptor.
func TestConnection_NoYieldWithoutDescriptor(t *testing.T) {
	t.Parallel()
	s, _ := setup{engine: newSlowEngine()}.startPiped(t)
	p := s.dial()
	for range 100 {
		p.ask("CL.THROTTLE", "k", "1000", "1", "60")
	}
	noLong(t, s.Server, "after the commands")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(p.Conn, long) // an error becomes one of read
	}()
	for range 3 * batchSize {
		p.read()
	}
	<-sent
	if !eventually(func() bool { return s.polls.long.Load() == 0 }) {
		noLong(t, s.Server, "while the server waits for further commands")
	}
}

// TestOutput_BlockedWriteEndsSlice checks that a client that does not read its replies does not count as a long pipeline,
// whether or not its replies are queued.
func TestOutput_BlockedWriteEndsSlice(t *testing.T) {
	t.Parallel()
	s := setup{engine: newSlowEngine()}.start(t)
	for _, queue := range []bool{false, true} {
		c, e := detached(t, s.Server), newEventLoop()
		e.feed(t, c, long)
		e.run()
		if n := s.polls.long.Load(); n != 1 {
			t.Fatalf("queue %t: %d clients count as long pipelines, want 1", queue, n)
		}
		c.out.Raw([]byte("+OK\r\n"))
		unblock := c.conn.socket.hangUp
		if queue {
			unblock = c.fillQueue(t)
		}
		flushed := make(chan bool)
		go func() { flushed <- c.conn.output.flush() }()
		if !eventually(func() bool { return s.polls.long.Load() == 0 }) {
			t.Errorf("queue %t: the client counts as a long pipeline while a write is blocked", queue)
		}
		unblock()
		if <-flushed {
			t.Errorf("queue %t: a write to an aborted connection succeeds", queue)
		}
		c.pipe.close()
	}
}

// fillQueue fills the queue of replies. The function that it returns makes a blocked write fail.
func (c *client) fillQueue(t *testing.T) (unblock func()) {
	t.Helper()
	c.session.authenticated = false // the queue is small
	f := newFeed(&c.conn.usage, false)
	if _, err := f.put(make([]byte, unauthenticatedReplies), unauthenticatedReplies, func() {}); err != nil {
		t.Fatal(err)
	}
	c.conn.output.feed = f
	return f.end
}

// TestPollQueue_LongPipelines checks that other clients do not wait for long pipelines that use all processors. It counts the
// time slices of the pipelines during a request. If the runtime did not poll the network between slices, but every 10 ms, each
// processor would run about 50 slices during a request.
func TestPollQueue_LongPipelines(t *testing.T) {
	engine := newSlowEngine()
	s := setup{engine: engine}.start(t)
	processors := int64(runtime.GOMAXPROCS(0))
	other := s.greet()
	for range 2 * processors {
		s.flood(strings.Repeat(long, 30))
	}
	spent := make([]int64, 51)
	for i := range spent {
		if !eventually(func() bool { return s.polls.long.Load() == 2*processors }) {
			t.Fatalf("%d of %d pipelines have commands", s.polls.long.Load(), 2*processors)
		}
		before := engine.calls.Load()
		other.do("+PONG\r\n", "PING")
		spent[i] = engine.calls.Load() - before
	}
	slices.Sort(spent)
	if median := spent[len(spent)/2]; median > 20*processors {
		t.Errorf("the pipelines had %d time slices during a request (median), on %d processors; want at most 20 per processor. All requests: %v", median, processors, spent)
	}
}

// flood sends commands again and again until the end of the test, and drops the replies.
func (s *testServer) flood(commands string) {
	p := s.dial()
	go func() { _, _ = io.Copy(io.Discard, p.Conn) }()
	go func() {
		for _, err := io.WriteString(p.Conn, commands); err == nil; {
			_, err = io.WriteString(p.Conn, commands)
		}
	}()
}
