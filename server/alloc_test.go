//go:build !race

// These tests run without the race detector, under which a sync.Pool drops a quarter of the values at random, so that
// the number of allocations depends on chance.

package server

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/resp"
)

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

// TestChecksDoNotAllocate is TestHotPathsDoNotAllocate for CL.CHECK, in both versions of the protocol.
func TestChecksDoNotAllocate(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		c := silentClient(t, setup{engine: buckets.New(buckets.Config{Shards: 8}), snapshots: &fakeSnapshots{}, rules: newRules(t, fourRules)})
		c.out.SetProtocol(protocol)
		var input strings.Reader
		for _, path := range checkPaths {
			c.respond(t, &input, path.input)
			if n := leastAllocs(func() { c.respond(t, &input, path.input) }); n != 0 {
				t.Errorf("%s: %v allocations with RESP%d, want 0", path.name, n, protocol)
			}
		}
	}
}

// TestRestrictedDoesNotAllocate checks that the commands of a restricted user allocate no memory.
func TestRestrictedDoesNotAllocate(t *testing.T) {
	u := withUsers("user app on nopass ~app:* +cl.throttle +cl.all\n")
	u.snapshots = &fakeSnapshots{}
	c := silentClient(t, u)
	c.become(c.srv.users.Get().Get("app"))
	c.conn.in = resp.NewReader(readLimits(c.conn.appliedOptions, true))
	var input strings.Reader
	for _, commands := range []string{
		request("CL.THROTTLE", "app:1", "15", "30", "60"),
		request(words("CL.ALL 1 WINDOW app:w 1000000 1s FIXED BUCKET app:b 1000000 30 1h")...),
	} {
		c.respond(t, &input, commands)
		if n := leastAllocs(func() { c.respond(t, &input, commands) }); n != 0 {
			t.Errorf("%.30q: %v allocations, want 0", commands, n)
		}
	}
}

// TestBansDoNotAllocate checks that refusals that are counted do not allocate memory.
func TestBansDoNotAllocate(t *testing.T) {
	var r refusals
	key := []byte("key")
	r.add(key, 1<<40, time.Hour, 0)
	if n := leastAllocs(func() { r.add(key, 1<<40, time.Hour, 0) }); n != 0 {
		t.Errorf("a refusal allocates %v times, want 0", n)
	}
}

// leastAllocs returns the number of allocations per run of f. It is the minimum of up to three averages, because an average
// also counts the allocations of goroutines that other tests have started, such as those of client libraries.
func leastAllocs(f func()) float64 {
	const runs = 1000
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
