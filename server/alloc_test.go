package server

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/resp"
)

// silentClient returns a client that no goroutine serves.
func silentClient(tb testing.TB, u setup) *client {
	tb.Helper()
	s := u.build(tb)
	near, far := net.Pipe()
	tb.Cleanup(func() {
		_, _ = near.Close(), far.Close()
		_ = s.Shutdown(tb.Context())
	})
	return newClient(s, near, &redisListener)
}

// respond parses the commands in text and runs them. It drops their replies.
func (c *client) respond(tb testing.TB, input *strings.Reader, text string) {
	c.process(tb, input, text)
	c.out.Truncate(0, keepOut)
}

// process parses the commands in text and runs them. Their replies are in c.out, unless they are long.
func (c *client) process(tb testing.TB, input *strings.Reader, text string) {
	input.Reset(text)
	for input.Len() > 0 {
		if _, err := c.conn.in.Fill(input); err != nil {
			tb.Fatalf("fill the read buffer: %v", err)
		}
		c.pipe.begin(c.conn.in)
		for n := c.pipe.advance(); n != needNothing; n = c.pipe.advance() {
			if n == needWrite {
				c.out.Truncate(0, keepOut)
				continue
			}
			c.pipe.wait()
		}
		if c.pipe.end != endNot {
			tb.Fatalf("the server would close the connection; the replies are %.100q", c.out.Bytes())
		}
	}
}

// hotPaths are pipelines of commands. They must not allocate memory after the first run, in which the buffers grow.
var hotPaths = []struct{ name, input string }{
	{"one decision", request("CL.THROTTLE", "user:1234567:api", "15", "30", "60")},
	{"sixteen decisions", strings.Repeat(request("CL.THROTTLE", "user:1234567:api", "1000000", "30", "60", "1"), 16)},
	{"decisions on many keys", manyKeysInput(100)},
	{"peeks and refunds", request("CL.THROTTLE", "k", "15", "30", "60", "0") + request("CL.THROTTLE", "k", "15", "30", "60", "-1")},
	{"sliding window", request("CL.WINDOW", "w1", "1000000", "60")},
	{"fixed window", request("CL.WINDOW", "w2", "1000000", "1m", "1", "FIXED")},
	{"window of buckets", request("CL.WINDOW", "w3", "1000000", "60", "BUCKETS", "6", "MS")},
	{"token bucket", request("CL.BUCKET", "b", "1000000", "30", "60")},
	{"leaky bucket", request("CL.LEAKY", "l", "1000000", "30", "60", "1", "MS")},
	{"three limits", allOfThree},
	{"sixteen commands with three limits", strings.Repeat(allOfThree, 16)},
	{"limiter commands of different kinds", strings.Repeat(request("CL.THROTTLE", "k", "15", "30", "60")+request("CL.BUCKET", "b", "1000000", "30", "60")+allOfThree, 8)},
	{"inline command", "cl.throttle k 15 30 60\r\n"},
	{"PING before and after a decision", ping + request("CL.THROTTLE", "k", "15", "30", "60") + ping},
	{"read and delete keys", request("TTL", "k") + request("EXISTS", "k", "l") + request("DEL", "l")},
}

var allOfThree = request(words("CL.ALL 1 WINDOW second 1000000 1s FIXED BUCKET tenant 1000000 30 1h THROTTLE user 1000000 30 60")...)

func manyKeysInput(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(request("CL.THROTTLE", "user:"+strconv.Itoa(i), "15", "30", "60"))
	}
	return b.String()
}

// TestHotPathsDoNotAllocate checks that no hot path allocates memory, from parsing the bytes to appending the replies.
// The engine is a real table.
func TestHotPathsDoNotAllocate(t *testing.T) {
	c := silentClient(t, setup{engine: buckets.New(buckets.Config{Shards: 8}), snapshots: &fakeSnapshots{}})
	c.conn.in = resp.NewReader(readLimits(c.conn.appliedOptions, true))
	var input strings.Reader
	for _, path := range hotPaths {
		c.respond(t, &input, path.input)
		if n := leastAllocs(func() { c.respond(t, &input, path.input) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", path.name, n)
		}
	}
}

// TestErrorsDoNotAllocate checks that a flood of new keys, which are refused because the memory is full, allocates no memory.
func TestErrorsDoNotAllocate(t *testing.T) {
	c := silentClient(t, setup{engine: buckets.New(buckets.Config{Shards: 8, MaxMemory: 1})})
	var input strings.Reader
	text := manyKeysInput(100)
	c.process(t, &input, text)
	if got, want := string(c.out.Bytes()), strings.Repeat(failure(errOutOfMemory), 100); got != want {
		t.Fatalf("got the replies %.100q, want %.100q", got, want)
	}
	if n := leastAllocs(func() { c.respond(t, &input, text) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// leastAllocs returns the number of allocations per run of f. It is the minimum of up to three averages, because an average
// also counts the allocations of goroutines that other tests have started, such as those of client libraries.
func leastAllocs(f func()) float64 {
	const runs = 1000 / race.Factor
	n := testing.AllocsPerRun(runs, f)
	for try := 1; try < 3 && n > 0; try++ {
		n = min(n, testing.AllocsPerRun(runs, f))
	}
	return n
}

func BenchmarkRespond(b *testing.B) {
	for _, path := range hotPaths {
		b.Run(path.name, func(b *testing.B) {
			c := silentClient(b, setup{})
			var input strings.Reader
			b.ReportAllocs()
			b.SetBytes(int64(len(path.input)))
			for b.Loop() {
				c.respond(b, &input, path.input)
			}
		})
	}
}
