package buckets

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/limiter"
)

// content maps each key of a table to its record, in the encoding of an arena, without the key.
type content map[string]string

func (c content) add(rec limiter.Record, after uint64) {
	if rec.Expires > after {
		key := string(rec.Key)
		rec.Key = nil
		c[key] = string(appendRecord(nil, &rec))
	}
}

// after returns the records that expire after now.
func (c content) after(now uint64) content {
	rest := maps.Clone(c)
	maps.DeleteFunc(rest, func(_, rec string) bool { return record(rec).expires() <= now })
	return rest
}

// contentOf returns all records of an idle table.
func contentOf(t *Table) content {
	c := content{}
	for i := range t.shards {
		for arena := t.shards[i].arena; len(arena) > 0; {
			rec := record(arena)
			if arena = arena[rec.size():]; !rec.dead() {
				c.add(rec.whole(), 0)
			}
		}
	}
	return c
}

// committedContent returns the records of CommittedRecords.
func committedContent(tb testing.TB, t *Table) content {
	tb.Helper()
	c := content{}
	for rec := range t.CommittedRecords() {
		if _, twice := c[string(rec.Key)]; twice {
			tb.Fatalf("CommittedRecords yields key %.40q twice", rec.Key)
		}
		c.add(rec, 0)
	}
	return c
}

// sameContent fails the test unless two contents are equal.
func sameContent(tb testing.TB, what string, got, want content) {
	tb.Helper()
	if maps.Equal(got, want) {
		return
	}
	for key, rec := range want {
		if got[key] != rec {
			tb.Errorf("%s: the record of key %.40q is %.200q, want %.200q", what, key, got[key], rec)
		}
	}
	for key, rec := range got {
		if _, found := want[key]; !found {
			tb.Errorf("%s: the record of key %.40q is %.200q, want none", what, key, rec)
		}
	}
	tb.FailNow()
}

// checkUndoLogs checks the invariants of an idle replicated table: records with a saved or tail flag
// have undo entries, and no data of previous epochs remains.
func checkUndoLogs(tb testing.TB, t *Table) {
	tb.Helper()
	for i := range t.shards {
		s := &t.shards[i]
		u := s.undoLog()
		if s.unlimited || t.leader != u.epoch || t.leader == 0 && len(u.entries)+len(u.bytes)+len(u.closed)+len(u.images) > 0 {
			tb.Fatalf("shard %d: unlimited is %t, the epoch of the table is %d, the undo log is %+v; want unlimited false, the same epoch in the undo log, and nothing else in it on a follower", i, s.unlimited, t.leader, u)
		}
		if marked := t.dirty[i/64].Load()>>(i%64)&1 != 0; marked != u.dirty || marked && !t.Pending() {
			tb.Fatalf("shard %d: the dirty flag of its undo log is %t, the dirty bit of the shard is %t, Pending returns %t; want the flag equal to the bit, and Pending true if the bit is true", i, u.dirty, marked, t.Pending())
		}
		if u.dirty != (len(u.entries) > u.opened()) && u.dirty != (len(u.entries) > 0) {
			tb.Fatalf("shard %d: the dirty flag is %t, but the undo log has %d entries, and the open generation starts at entry %d", i, u.dirty, len(u.entries), u.opened())
		}
		for at, sl := range s.index {
			if sl == 0 {
				continue
			}
			rec := s.record(at)
			e := u.find(rec.key(), sl.tag(), len(u.entries))
			if saved := rec[0]&savedFlag != 0; saved && e < 0 {
				tb.Fatalf("the record of key %.40q has the saved flag, but the undo log has no entry for the key", rec.key())
			}
			if rec[0]&tailFlag != 0 && (e < 0 || u.entries[e].from == 0) {
				tb.Fatalf("the record of key %.40q has the tail flag, but the undo log has no tail entry for the key", rec.key())
			}
		}
	}
}

// generation is a closed generation of the leader.
type generation struct {
	number  uint64
	time    uint64
	changes []byte
	content content // content of the table at the end of the generation
}

// replicaRun is a random run of a leader and a follower.
type replicaRun struct {
	testing.TB
	*rand.Rand
	clock     *fakeClock
	leads     *Table
	follows   *Table
	sweeps    [2]sweeper
	epoch     uint64
	flying    []generation // collected generations that are not committed yet
	log       []generation // committed generations
	committed content
	settled   uint64
	kinds     map[byte]int // number of replayed changes by op
}

func newReplicaRun(tb testing.TB, seed uint64) *replicaRun {
	r := &replicaRun{TB: tb, Rand: rand.New(rand.NewPCG(seed, 7)), clock: newFakeClock(), committed: content{}, kinds: map[byte]int{}}
	config := Config{Clock: r.clock.read, Replicated: true, MaxMemory: []int64{0, 4000, 9000}[seed%3], Eviction: Eviction(seed / 3 % 2)}
	config.Shards = 1 << r.IntN(4)
	r.leads = New(config)
	config.Shards = 1 << r.IntN(4)
	r.follows = New(config)
	r.sweeps[0].table, r.sweeps[1].table = r.leads, r.follows
	r.lead()
	return r
}

func (r *replicaRun) lead() {
	r.epoch++
	r.leads.Lead(r.epoch)
}

// request draws a request for one of about two hundred keys, most of which always have the same
// kind.
func (r *replicaRun) request() limiter.Request {
	quantities := [...]int64{1, 1, 1, 1, 1, 2, 5, 0, -1, -3, -1000}
	number := r.IntN(42)
	if r.IntN(4) == 0 {
		number += 42 * r.IntN(5) // more keys than fit in memory
	}
	if r.IntN(3) == 0 {
		number = int(limiter.WindowLog) - 1 + len(limits)*r.IntN(3) // a key with a growing log
	}
	req := limiter.Request{
		Kind:     limiter.Kind(1 + number%len(limits)),
		Key:      fmt.Appendf(nil, "key %d%*s", number, number*number%50, ""),
		Quantity: quantities[r.IntN(len(quantities))],
	}
	if r.IntN(12) == 0 {
		req.Kind = limiter.Kind(1 + r.IntN(len(limits)))
	}
	of := limits[req.Kind]
	req.Limit = of[r.IntN(len(of))]
	if req.Kind == limiter.WindowLog && r.IntN(10) > 0 {
		req.Limit, req.Quantity = of[len(of)-1], max(-1, req.Quantity)
	}
	return req
}

func (r *replicaRun) decide() {
	reqs := make([]limiter.Request, 1+r.IntN(1+r.IntN(20)))
	together := r.IntN(3)
	for i := range reqs {
		reqs[i] = r.request()
		reqs[i].Trial = r.IntN(20) == 0
		reqs[i].Linked = r.IntN(3) < together && i < len(reqs)-1
	}
	out := make([]limiter.Decision, len(reqs))
	if token := r.leads.Decide(reqs, out); token.Epoch != r.epoch || token.Generation > r.leads.OpenGeneration().Generation {
		r.Fatalf("in epoch %d, with open generation %d, the token is %+v; want this epoch, and no later generation", r.epoch, r.leads.OpenGeneration().Generation, token)
	}
	if token := r.follows.Decide(reqs, out); token != (limiter.CommitToken{}) {
		r.Fatalf("Decide on a follower returns the token %+v, want the zero token", token)
	}
	for i := range out {
		if out[i] != (limiter.Decision{Err: limiter.ErrNotLeading}) {
			r.Fatalf("a decision on a follower: got %+v, want ErrNotLeading", out[i])
		}
	}
}

func (r *replicaRun) collect() {
	if len(r.flying) == 3 {
		return
	}
	pending := r.leads.Pending()
	g := generation{content: contentOf(r.leads), time: r.clock.read()}
	g.number, g.changes = r.leads.Collect([]byte("before"))
	if g.changes = g.changes[len("before"):]; len(g.changes) > 0 && !pending {
		r.Fatalf("Collect returns %d bytes of changes, but Pending returned false", len(g.changes))
	}
	r.flying = append(r.flying, g)
}

// replayOldest appends the oldest generation in flight to the log, replays it on the follower and returns
// it.
func (r *replicaRun) replayOldest() generation {
	g := r.flying[0]
	r.flying = r.flying[1:]
	r.log = append(r.log, g)
	r.committed, r.settled = g.content, g.time
	for b := readerOf(g.changes); len(b.Rest) > 1; {
		if len(b.Rest) == len(g.changes) {
			b.Byte()
		}
		c, _ := b.change()
		r.kinds[c.op]++
	}
	if err := r.follows.Replay(g.changes, g.time); err != nil {
		r.Fatal(err)
	}
	return g
}

func (r *replicaRun) commit() {
	if len(r.flying) == 0 {
		return
	}
	g := r.replayOldest()
	if !r.leads.Commit(g.number, g.time) {
		r.Fatalf("Commit of generation %d returns false, want true", g.number)
	}
	r.compare()
}

// compare checks both tables against the committed content.
func (r *replicaRun) compare() {
	r.Helper()
	want := r.committed.after(r.settled)
	sameContent(r, "content of the follower", contentOf(r.follows).after(r.settled), want)
	sameContent(r, "committed content of the leader", committedContent(r, r.leads), want)
	for _, now := range []uint64{r.settled, r.settled + 1e9, r.settled + 20e9} {
		sum, n := r.leads.Hash(now)
		other, m := r.follows.Hash(now)
		if sum != other || n != m || int(n) != len(want.after(now)) {
			r.Fatalf("the leader has %d keys, the follower %d; the hashes are %x and %x; want equal hashes of %d keys", n, m, sum, other, len(want.after(now)))
		}
	}
}

// resign makes the leader a follower. Some of the generations in flight are committed nevertheless.
// Then one of the two tables becomes the leader. The clock may then be set back, but not to a time
// before the settled log time.
func (r *replicaRun) resign() {
	r.leads.Follow()
	checkUndoLogs(r, r.leads)
	got := contentOf(r.leads)
	sameContent(r, "after a rollback", got.after(r.settled), r.committed.after(r.settled))
	for range r.IntN(len(r.flying) + 1) {
		g := r.replayOldest()
		if r.leads.Commit(g.number, g.time) {
			r.Fatal("a rolled-back generation was committed")
		}
		if err := r.leads.Replay(g.changes, g.time); err != nil {
			r.Fatal(err)
		}
	}
	r.flying = nil
	r.compare()
	if latest := r.clock.read(); r.IntN(2) == 0 && latest > r.settled {
		r.clock.now.Store(r.settled + r.Uint64N(latest-r.settled+1))
	}
	if r.IntN(2) == 0 {
		r.leads, r.follows = r.follows, r.leads
	}
	r.lead()
}

// restart clears the follower and restores it from a snapshot of the leader and from the log since
// the start of the snapshot. The log grows while the snapshot is taken.
func (r *replicaRun) restart() {
	from := len(r.log)
	settled := r.settled
	var recs []limiter.Record
	for rec := range r.leads.CommittedRecords() {
		rec.Key, rec.State = bytes.Clone(rec.Key), bytes.Clone(rec.State)
		recs = append(recs, rec)
		switch r.IntN(40) {
		case 0:
			r.collect()
		case 1:
			if len(r.flying) > 0 {
				r.leads.Commit(r.flying[0].number, r.flying[0].time)
				r.replayOldest()
			}
		case 2:
			r.decide()
		}
	}
	r.follows.Reset()
	for _, rec := range recs {
		if err := r.follows.Restore(rec, settled); err != nil {
			r.Fatal(err)
		}
	}
	for _, g := range r.log[max(0, from-r.IntN(4)):] {
		if err := r.follows.Replay(g.changes, g.time); err != nil {
			r.Fatal(err)
		}
		r.sweeps[r.IntN(2)].step()
	}
	r.compare()
}

func (r *replicaRun) step() {
	switch n := r.IntN(200); {
	case n < 80:
		r.decide()
	case n < 90:
		req := r.request()
		if req.Kind == limiter.WindowLog && r.IntN(10) > 0 {
			return // logs must grow
		}
		mustDelete(r.leads, req.Key)
		if found, err := r.follows.Delete(req.Key); found || err != limiter.ErrNotLeading {
			r.Fatalf("Delete on a follower returned %t, %v; want false, ErrNotLeading", found, err)
		}
	case n < 120:
		r.clock.advance(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
	case n < 121:
		if r.IntN(5) > 0 {
			return
		}
		r.clock.advance(time.Duration(r.Int64N(int64(30 * time.Second))))
	case n < 135:
		r.sweeps[n%2].step()
	case n < 140:
		relieveAll([]*Table{r.leads, r.follows}[n%2])
	case n < 141:
		if r.IntN(5) == 0 {
			r.clear()
		}
	case n < 168:
		r.collect()
	case n < 195:
		r.commit()
	case n < 196:
		r.restart()
	case n < 198:
		r.resign()
	default:
		r.compare()
	}
}

func (r *replicaRun) clear() {
	mustClear(r.leads)
	if n := r.leads.Usage().Keys; n != 0 {
		r.Fatalf("%d keys after Clear, want none", n)
	}
}

// After any sequence of operations, the follower holds the committed content. After a rollback, the
// former leader also holds it.
func TestReplicas(t *testing.T) {
	kinds := map[byte]int{}
	evicted := int64(0)
	for seed := range uint64(48 / race.Factor) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := newReplicaRun(t, seed)
			for range 1500 {
				r.step()
				for _, table := range []*Table{r.leads, r.follows} {
					checkTable(t, table)
					checkUndoLogs(t, table)
				}
			}
			for kind, n := range r.kinds {
				kinds[kind] += n
			}
			evicted += r.leads.Usage().Evicted
		})
	}
	for _, kind := range []byte{changeClear, changeDelete, opPut, changeTail} {
		if kinds[kind] < 20/race.Factor {
			t.Errorf("changes with op %#x were replayed only %d times; the replayed ops are %v", kind, kinds[kind], slices.Sorted(maps.Keys(kinds)))
		}
	}
	// The number of evictions depends on the random seeds of the tables, the more so if there are few runs.
	if want := int64(400 / (race.Factor * race.Factor)); evicted < want {
		t.Errorf("only %d keys were evicted, want at least %d", evicted, want)
	}
}
