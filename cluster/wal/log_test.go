package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/internal/goroutines"
	"github.com/throttledhq/throttled/internal/race"
)

// TestLog_Model compares a log over bbolt with a map under random operations. The log is
// reopened at random, after Close or after a simulated crash.
func TestLog_Model(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			dir := t.TempDir()
			c := Config{Dir: dir, Base: openBolt(t, dir, false), Sync: seed == 0, MaxEntries: 2 + r.IntN(60), MaxBytes: 1 + r.Int64N(4000)}
			if seed == 5 {
				c.MaxEntries, c.MaxBytes = 0, 0
			}
			l := openLog(t, c)
			model := oracle{}
			for step := range 1500 / race.Factor {
				op := randomOp(r, model, uint64(step))
				must(t, op.do(l))
				_ = op.do(model)
				if r.IntN(60) == 0 {
					if r.IntN(2) == 0 {
						must(t, l.Close())
						if files := logFiles(t, dir); len(files) > 0 {
							t.Fatalf("after Close, the directory still has the log files %v", files)
						}
					} else {
						abandon(l)
					}
					l = openLog(t, c)
				}
				if r.IntN(20) == 0 {
					checkLog(t, l, model)
				}
			}
			must(t, l.Close())
			checkLog(t, c.Base, model)
		})
	}
}

// abandon stops a log as a crash of the process would, except that a move in progress
// completes.
func abandon(l *Log) {
	_ = l.fail(errDisk)
	_ = l.Close()
}

// op is a modification of a log: it stores entries or deletes a range.
type op struct {
	entries []*raft.Log
	lo, hi  uint64
}

func (o op) String() string {
	if len(o.entries) == 0 {
		return fmt.Sprintf("delete %d-%d", o.lo, o.hi)
	}
	return fmt.Sprintf("store %d-%d of term %d", o.entries[0].Index, o.entries[len(o.entries)-1].Index, o.entries[0].Term)
}

func (o op) do(l any) error {
	switch l := l.(type) {
	case oracle:
		l.store(o.entries)
		if o.entries == nil {
			l.remove(o.lo, o.hi)
		}
		return nil
	case *Log:
		if o.entries != nil {
			return l.StoreLogs(o.entries)
		}
		return l.DeleteRange(o.lo, o.hi)
	}
	panic("no log")
}

// randomOp returns a random operation for a log with the content of model. Most operations are typical of raft.
func randomOp(r *rand.Rand, model oracle, term uint64) op {
	first, last := model.bounds()
	span := last - first + 1
	n, size := r.Uint64N(12), r.IntN(200)
	switch r.IntN(40) {
	case 0, 1: // compaction after a snapshot
		return op{lo: first, hi: first + r.Uint64N(span+2)}
	case 2: // the newest entries are deleted, as after an election
		return op{lo: last - min(last, r.Uint64N(20)), hi: last + r.Uint64N(2)}
	case 3: // a gap, as after the installation of a snapshot
		return op{entries: commands(last+2+n, last+2+n+n, term, size)}
	case 4: // entries are overwritten without a deletion
		from := max(1, last-min(last, n))
		return op{entries: commands(from, from+n/2, term, size)}
	case 5: // any range; raft deletes only ranges at the ends of the log
		return op{lo: first + r.Uint64N(span+1), hi: first + r.Uint64N(span+1)}
	case 6: // all entries
		return op{lo: 0, hi: ^uint64(0) - r.Uint64N(2)}
	}
	return op{entries: commands(last+1, last+1+n, term, size)}
}

// TestLog_Concurrent reads entries and deletes old ones while new ones are stored, like raft.
func TestLog_Concurrent(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, Config{Dir: dir, Base: openBolt(t, dir, false), MaxEntries: 64})
	const n = 3000
	var wg sync.WaitGroup
	stored := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for i := uint64(1); i <= n; {
				last, err := l.LastIndex()
				if err != nil {
					t.Error(err)
					return
				}
				for ; i <= last; i++ {
					var got raft.Log
					if err := l.GetLog(i, &got); errors.Is(err, raft.ErrLogNotFound) {
						if i+1000 > n { // smaller indexes may have been deleted
							t.Errorf("GetLog(%d) returns raft.ErrLogNotFound; want the stored entry", i)
						}
					} else if err != nil || !same(&got, command(i, 1, 100)) {
						t.Errorf("GetLog(%d) returns %+v, %v; want the stored entry", i, got, err)
					}
				}
				runtime.Gosched()
			}
		})
	}
	wg.Go(func() {
		for done := false; !done; {
			select {
			case <-stored:
				done = true
			default:
			}
			last, _ := l.LastIndex()
			if first, _ := l.FirstIndex(); last > first+1000 {
				if err := l.DeleteRange(first, last-1000); err != nil {
					t.Error(err)
				}
			}
			runtime.Gosched()
		}
	})
	for i := uint64(1); i <= n; i += 3 {
		must(t, l.StoreLogs(commands(i, i+2, 1, 100)))
	}
	close(stored)
	wg.Wait()
}

func TestLog_Closed(t *testing.T) {
	const ofLogs = "github.com/throttledhq/throttled/cluster/wal.(*Log)"
	before := goroutines.Of(ofLogs)
	m := newMachine()
	l, err := Open(m.config())
	must(t, err)
	must(t, l.StoreLogs(commands(1, 50, 1, 10)))
	l.baseMu.Lock() // blocks the goroutine that moves entries
	must(t, l.StoreLogs(commands(51, 60, 1, 10)))
	if len(goroutines.Since(before, ofLogs)) == 0 {
		t.Error("goroutines.Since does not find the goroutine that moves entries")
	}
	l.baseMu.Unlock()
	must(t, l.Close())
	must(t, l.Close())
	if len(m.names) != 0 || len(m.base) != 60 {
		t.Errorf("after Close there are %d files, and %d entries in Base; want 0 and 60", len(m.names), len(m.base))
	}
	checkFails(t, l, ErrClosed)
	goroutines.AwaitEnd(t, ofLogs, before)
}

// checkFails checks that every call returns the error want.
func checkFails(t *testing.T, l *Log, want error) {
	t.Helper()
	_, firstErr := l.FirstIndex()
	_, lastErr := l.LastIndex()
	for name, err := range map[string]error{
		"FirstIndex": firstErr, "LastIndex": lastErr,
		"GetLog":      l.GetLog(1, new(raft.Log)),
		"StoreLog":    l.StoreLog(command(1, 1, 1)),
		"StoreLogs":   l.StoreLogs(nil),
		"DeleteRange": l.DeleteRange(1, 1),
	} {
		if !errors.Is(err, want) {
			t.Errorf("%s returns %v; want %v", name, err, want)
		}
	}
}

// TestLog_Memory checks that entries in Base are removed from memory, except the newest.
func TestLog_Memory(t *testing.T) {
	m := newMachine()
	c := m.config()
	c.MaxEntries = 2000
	l := openLog(t, c)
	for i := uint64(1); i <= 20000; i += 10 {
		must(t, l.StoreLogs(commands(i, i+9, 1, 1)))
		if n := l.held(); n > 2000+cachedEntries+10 {
			t.Fatalf("after entry %d, %d entries are in memory; want at most 2000+cachedEntries+10", i, n)
		}
	}
	must(t, l.runExclusive(l.moveAllAndReset))
	if n := l.held(); n != cachedEntries {
		t.Errorf("after all entries were moved, %d are in memory; want cachedEntries", n)
	}
}

func (l *Log) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recent.size()
}

// TestLog_ForgottenEntry reads an entry that is in Base but not in memory. GetLog must overwrite all
// fields of the caller's entry, also with empty values.
func TestLog_ForgottenEntry(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, Config{Dir: dir, Base: openBolt(t, dir, false), MaxEntries: 10})
	must(t, l.StoreLogs([]*raft.Log{{Index: 1, Type: raft.LogNoop}}))
	must(t, l.StoreLogs(commands(2, 2000, 1, 5)))
	must(t, l.runExclusive(l.moveAllAndReset))
	got := *command(9, 9, 9)
	must(t, l.GetLog(1, &got))
	if !same(&got, &raft.Log{Index: 1, Type: raft.LogNoop}) {
		t.Errorf("entry 1 is %+v; want index 1, type LogNoop and no other fields", got)
	}
	if err := l.GetLog(2001, &got); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("GetLog(2001) returns %v; want raft.ErrLogNotFound", err)
	}
}

type monotonic struct{ baseStore }

func (monotonic) IsMonotonic() bool { return true }

func TestLog_IsMonotonic(t *testing.T) {
	c := newMachine().config()
	if openLog(t, c).IsMonotonic() {
		t.Error("IsMonotonic is true with a base store that accepts gaps; want false")
	}
	m := newMachine()
	c = m.config()
	c.Base = monotonic{baseStore{m}}
	if !openLog(t, c).IsMonotonic() {
		t.Error("IsMonotonic is false with a base store that accepts no gaps; want true")
	}
}

// TestLog_Fails makes one operation of Base or of the files fail. The call that needs the
// operation, or the next call, must return the error. All later calls must return the error too, and
// must not write to a file.
func TestLog_Fails(t *testing.T) {
	for _, what := range []string{"create", "write", "sync", "sync names", "remove", "store", "delete"} {
		for nth := 1; nth <= 3; nth++ {
			t.Run(fmt.Sprint(what, nth), func(t *testing.T) { failOnce(t, what, nth) })
		}
	}
}

func failOnce(t *testing.T, what string, nth int) {
	m := newMachine()
	l, err := Open(m.config())
	must(t, err)
	seen := 0
	m.mu.Lock()
	m.fail = func(_ int, step string) bool {
		if step == what || strings.HasPrefix(step, what+" ") && what != "sync" {
			seen++
		}
		return seen == nth
	}
	m.mu.Unlock()
	model := oracle{}
	r := rand.New(rand.NewPCG(3, uint64(nth)))
	for step := uint64(0); err == nil && step < 2000; step++ {
		op := randomOp(r, model, step)
		if err = op.do(l); err == nil {
			_ = op.do(model)
		}
	}
	if !errors.Is(err, errDisk) {
		t.Fatalf("the last call returns %v; want errDisk", err)
	}
	checkFails(t, l, errDisk)
	if closeErr := l.Close(); !errors.Is(closeErr, errDisk) {
		t.Errorf("Close returns %v; want errDisk", closeErr)
	}
	after := m.count("write")
	checkFails(t, l, ErrClosed)
	if m.count("write") != after {
		t.Error("a file was written after a failure")
	}
}

// count returns the number of times that a step was executed.
func (m *machine) count(what string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, done := range m.ops {
		if done == what {
			n++
		}
	}
	return n
}
