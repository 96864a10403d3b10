package server

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/throttledhq/throttled/options"
)

// memoryOf returns the numeric fields of a connection in CLIENT LIST.
func memoryOf(p *peer, id string) (fields map[string]int64) {
	p.t.Helper()
	fields = map[string]int64{}
	for _, word := range strings.Fields(p.ask("CLIENT", "LIST", "ID", id).text) {
		name, text, _ := strings.Cut(word, "=")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			fields[name] = n
		}
	}
	return fields
}

func (p *peer) id() string {
	p.t.Helper()
	return strconv.FormatInt(p.ask("CLIENT", "ID").int(), 10)
}

// TestClientMemoryIsShown makes clients hold memory of each kind and then release it. CLIENT LIST must show both
// changes.
func TestClientMemoryIsShown(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.greet()
	const size = 200 << 10
	word := strings.Repeat("x", size)
	for _, tt := range []struct {
		field     string
		take, end func(q *peer)
	}{
		{"qbuf", func(q *peer) { q.send("*2\r\n$4\r\nECHO\r\n$204801\r\n" + word) }, func(q *peer) { q.send("x\r\n"); q.expect(bulk(word + "x")) }},
		{"multi-mem", func(q *peer) { q.do("+OK\r\n", "MULTI"); q.do("+QUEUED\r\n", "EXISTS", word) }, func(q *peer) { q.do("+OK\r\n", "DISCARD") }},
		{"multi-mem", func(q *peer) { q.do("+OK\r\n", "WATCH", word) }, func(q *peer) { q.do("+OK\r\n", "UNWATCH") }},
		{"tot-mem", func(q *peer) { q.ask("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", word) }, func(q *peer) { q.ask("CLIENT", "TRACKING", "OFF") }},
		{"tot-mem", func(q *peer) {
			for i := range 300 {
				q.ask("SUBSCRIBE", strings.Repeat("c", 1000)+strconv.Itoa(i))
			}
		}, func(q *peer) { q.do("+RESET\r\n", "RESET") }},
	} {
		q := s.greet()
		id := q.id()
		tt.take(q)
		if !eventually(func() bool { m := memoryOf(p, id); return m[tt.field] >= size && m["tot-mem"] >= m[tt.field] }) {
			t.Errorf("%s: while memory is held, CLIENT LIST shows %v, want at least 200 KiB in this field and in tot-mem", tt.field, memoryOf(p, id))
		}
		if got := s.clientMemory.total.Load(); got < size {
			t.Errorf("%s: the server counts %d bytes for all clients, want at least 200 KiB", tt.field, got)
		}
		tt.end(q)
		if !eventually(func() bool { return memoryOf(p, id)["tot-mem"] < size }) {
			t.Errorf("%s: after the memory was released, CLIENT LIST shows %v, want tot-mem below 200 KiB", tt.field, memoryOf(p, id))
		}
		_ = q.Close()
	}
	p.await("clients", "connected_clients", 1)
	if got, want := p.count("memory", "mem_clients_normal"), s.sortedClients()[0].conn.usage.total(); got < connectionBytes || got > 2*want {
		t.Errorf("mem_clients_normal is %d, want about %d, the memory of the only client", got, want)
	}
}

// TestEvictClients checks that the client with the most memory is evicted, unless it is exempt.
func TestEvictClients(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options.Options) { o.MaxMemoryClients = 2 << 20 })
	hold := func(kib int) *peer {
		q := s.greet()
		q.do("+OK\r\n", "MULTI")
		for range kib / 100 {
			q.do("+QUEUED\r\n", "EXISTS", strings.Repeat("k", 100<<10))
		}
		return q
	}
	p := s.greet()
	exempt := s.greet()
	exempt.do("+OK\r\n", "CLIENT", "NO-EVICT", "ON")
	exempt.do("+OK\r\n", "MULTI")
	for range 8 {
		exempt.do("+QUEUED\r\n", "EXISTS", strings.Repeat("k", 100<<10))
	}
	small, large := hold(200), hold(600)
	more := s.greet()
	more.do("+OK\r\n", "MULTI")
	for range 5 {
		more.do("+QUEUED\r\n", "EXISTS", strings.Repeat("k", 100<<10))
	}
	large.closed()
	small.do("*2\r\n:0\r\n:0\r\n", "EXEC")
	exempt.do("*8\r\n"+strings.Repeat(":0\r\n", 8), "EXEC")
	more.do("*5\r\n"+strings.Repeat(":0\r\n", 5), "EXEC")
	p.await("stats", "evicted_clients", 1)
	p.await("clients", "connected_clients", 4)
	if n := s.clientMemory.evictedBytes.Load(); n != 0 {
		t.Errorf("%d bytes are counted for evicted clients that are not yet closed, want 0", n)
	}
}

// TestEvictAtALowerLimit checks that lowering maxmemory-clients evicts clients above the new limit.
func TestEvictAtALowerLimit(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p, q := s.greet(), s.greet()
	q.do("+OK\r\n", "MULTI")
	q.do("+QUEUED\r\n", "EXISTS", strings.Repeat("k", 400<<10))
	p.do("+OK\r\n", "CONFIG", "SET", "maxmemory-clients", "200kb")
	q.closed()
	p.await("stats", "evicted_clients", 1)
	p.do("+OK\r\n", "CONFIG", "RESETSTAT")
	p.await("stats", "evicted_clients", 0)
}

// TestHalfSentFlood sends incomplete long commands on many connections. Some of these clients must be evicted, and
// another client must be served.
func TestHalfSentFlood(t *testing.T) {
	const limit = 8 << 20
	s := start(t, func(o *options.Options) { o.MaxMemoryClients = limit })
	p := s.greet()
	for range 100 {
		q := s.dial()
		_, _ = q.Write([]byte("*3\r\n$4\r\nECHO\r\n$400000\r\n" + strings.Repeat("x", 400_000) + "\r\n$400000\r\n" + strings.Repeat("x", 300_000)))
		p.do("+PONG\r\n", "PING")
		// The total includes memory that a client waits for, so it may exceed the limit until clients have been evicted.
		if !eventually(func() bool { return s.clientMemory.total.Load() <= limit }) {
			t.Fatalf("clients hold %d bytes, want at most %d", s.clientMemory.total.Load(), limit)
		}
	}
	if p.count("stats", "evicted_clients") == 0 {
		t.Error("no client was evicted")
	}
}

// watchedLock is the lock of a condition variable. The function look returns the guarded value. Lock stores this
// value in the field before, and Unlock stores it in the field after.
type watchedLock struct {
	sync.Mutex
	look          func() int64
	before, after int64
}

func (l *watchedLock) Lock()   { l.Mutex.Lock(); l.before = l.look() }
func (l *watchedLock) Unlock() { l.after = l.look(); l.Mutex.Unlock() }

// TestEvictedClientsLeaveUnderTheLock checks that an evicted client releases its memory under the
// lock of the condition variable, so that a client that waits for memory cannot miss the wakeup.
func TestEvictedClientsLeaveUnderTheLock(t *testing.T) {
	t.Parallel()
	use := testUsage(t)
	lock := &watchedLock{look: use.all.evictedBytes.Load}
	use.all.evictedClosed = sync.NewCond(lock)
	use.evicted.Store(100)
	use.all.evictedBytes.Add(100)
	use.release()
	if lock.before != 100 || lock.after != 0 {
		t.Errorf("evictedBytes is %d when the lock is taken, want 100; %d when it is released, want 0", lock.before, lock.after)
	}
}
