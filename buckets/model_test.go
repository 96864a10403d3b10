package buckets

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/throttledhq/throttled/internal/race"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// modelRecord is the state of a key. The born field changes if the key is deleted and created again.
type modelRecord struct {
	kind  limiter.Kind
	tat   uint64
	state string
	gauge byte
	born  int
}

// model is a reference implementation of Table based on a map. It never drops expired records.
type model struct {
	records map[string]modelRecord
	births  int
	want    limiter.Usage // the expected counters; Keys also counts expired keys
}

// live returns the state of a key, and reports whether the key exists and has not expired.
func (m *model) live(key string, now uint64) (modelRecord, bool) {
	rec := m.records[key]
	return rec, rec.tat > now
}

func (m *model) lookup(key string, now uint64) (modelRecord, bool) {
	rec, live := m.live(key, now)
	if live {
		m.want.Hits++
	} else {
		m.want.Misses++
	}
	return rec, live
}

func (m *model) forget(key string, now uint64) bool {
	_, live := m.live(key, now)
	delete(m.records, key)
	if live {
		m.want.Keys--
		m.want.Changes++
	}
	return live
}

func (m *model) put(rec limiter.Record, now uint64) {
	key := string(rec.Key)
	if rec.Expires <= now {
		m.forget(key, now)
		return
	}
	old, live := m.live(key, now)
	if !live {
		m.births++
		m.want.Keys++
		old.born = m.births
	}
	m.want.Changes++
	m.records[key] = modelRecord{rec.Kind, rec.Expires, string(rec.State), rec.Gauge, old.born}
}

// evaluate decides a request without storing anything. It returns the record of the key, the change
// and the decision.
func (m *model) evaluate(req *limiter.Request, quantity int64, now uint64) (modelRecord, limiter.Change, limiter.Decision) {
	rec, live := m.live(string(req.Key), now)
	var old limiter.State
	if live {
		old = limiter.State{Expires: rec.tat, Data: []byte(rec.state)}
	}
	c, d := algorithms[req.Kind](&req.Limit, old, now, quantity, nil)
	return rec, c, d
}

// apply stores the change of a decision.
func (m *model) apply(req *limiter.Request, rec modelRecord, c limiter.Change, d *limiter.Decision, now uint64) {
	switch {
	case !c.Set, req.Trial && !d.Limited:
	case c.Expires <= now:
		m.forget(string(req.Key), now)
	default:
		state := append([]byte(rec.state)[:c.Keep], c.Tail...)
		m.put(limiter.Record{Kind: req.Kind, Key: req.Key, Expires: c.Expires, State: state, Gauge: byte(gaugeOf(req, d))}, now)
	}
}

func (m *model) decide(req *limiter.Request, now uint64) limiter.Decision {
	rec, live := m.lookup(string(req.Key), now)
	if live && rec.kind != req.Kind {
		return limiter.Decision{Err: limiter.WrongKindError(rec.kind)}
	}
	rec, c, d := m.evaluate(req, quantityOf(req), now)
	m.apply(req, rec, c, &d, now)
	return d
}

// decideGroup decides a group of requests: either all of them are charged or none.
func (m *model) decideGroup(reqs []limiter.Request, now uint64) []limiter.Decision {
	out := make([]limiter.Decision, len(reqs))
	fail := func(at int, err error) []limiter.Decision {
		for i := range out {
			out[i] = limiter.Decision{Err: limiter.ErrGroup}
		}
		out[at].Err = err
		return out
	}
	keys := map[string]bool{}
	for i, req := range reqs {
		if keys[string(req.Key)] {
			return fail(i, limiter.ErrSameKey)
		}
		keys[string(req.Key)] = true
	}
	refused := false
	for i := range reqs {
		if rec, live := m.lookup(string(reqs[i].Key), now); live && rec.kind != reqs[i].Kind {
			return fail(i, limiter.WrongKindError(rec.kind))
		}
		_, _, out[i] = m.evaluate(&reqs[i], quantityOf(&reqs[i]), now)
		refused = refused || out[i].Limited
	}
	for i := range reqs {
		switch {
		case !refused || out[i].Limited: // a refused request may convert its state
			rec, c, d := m.evaluate(&reqs[i], quantityOf(&reqs[i]), now)
			m.apply(&reqs[i], rec, c, &d, now)
		default:
			_, _, out[i] = m.evaluate(&reqs[i], 0, now)
		}
	}
	return out
}

// scanRound is a complete scan that is interleaved with changes of the table.
type scanRound struct {
	cursor uint64
	stable map[string]int // the keys present at the start of the scan, with their born fields
	seen   map[string]bool
}

// tableRun applies the operations of a tape (see tape) to a Table and to a model.
type tableRun struct {
	testing.TB
	table *Table
	clock *fakeClock
	sweep sweeper
	model model
	round *scanRound
	in    tape
	max   int64 // the memory limit; -1 after a change of the limit
	evict bool
}

// runTable applies a tape to a Table and to a model. It checks the invariants and the counters of the
// Table after every step, and compares its content with the model at the end.
func runTable(tb testing.TB, data []byte) {
	r := &tableRun{TB: tb, clock: newFakeClock(), in: tape{data}}
	shards := []int{1, 2, 8, 64}[r.in.number(1)%4]
	how := r.in.number(1)
	r.max = []int64{0, 0, 2000, 20_000}[how%4]
	r.evict = how&4 != 0
	r.table = New(Config{Clock: r.clock.read, Shards: shards, MaxMemory: r.max})
	if r.evict {
		r.table.SetEviction(EvictSmallestDebt)
	}
	r.sweep.table = r.table
	r.model.records = map[string]modelRecord{}
	for r.in.more() {
		r.step()
		checkTable(tb, r.table)
		r.counts()
	}
	r.compare()
}

func (r *tableRun) step() {
	switch op := r.in.number(1); op % 32 {
	case 0:
		r.lookup()
	case 1, 2:
		r.remove()
	case 3, 4:
		r.clock.advance(time.Duration(r.in.number(4)) * 100) // up to 430 s
	case 5:
		r.clock.advance(time.Duration(r.in.number(1)))
	case 6, 7, 8:
		r.scan()
	case 9, 10:
		r.sweep.step()
	case 11:
		relieveAll(r.table)
		if r.evict {
			r.forgetEvicted(nil)
		}
	case 12:
		r.compare()
	case 13:
		if r.in.number(1) < 16 {
			mustClear(r.table)
			clear(r.model.records)
			u := r.table.Usage()
			r.model.want.Keys, r.model.want.Changes = u.Expired, u.Changes
		}
	case 14:
		if r.in.number(1) < 16 {
			r.max = -1
			r.table.SetMaxMemory([]int64{0, 1000, 10_000, 50_000}[r.in.number(1)%4])
		}
	case 15, 16, 17:
		r.put()
	default:
		r.decide(int(op / 32))
	}
}

// key draws one of several hundred keys, with lengths from 0 to 5000 bytes.
func (r *tableRun) key() []byte {
	lengths := [...]int{0, 1, 2, 7, 16, 16, 16, 31, 32, 33, 127, 128, 300, 5000}
	id := r.in.number(1)
	if id >= 0xf0 {
		id = r.in.number(2)
	}
	pattern := binary.LittleEndian.AppendUint16(nil, uint16(id))
	return bytes.Repeat(pattern, 2500)[:lengths[id%uint64(len(lengths))]]
}

// limits holds the limits of requests of each kind.
var limits = map[limiter.Kind][]limiter.Limit{
	limiter.Throttle: {
		{Max: 5, Interval: time.Second},
		{Max: 1, Interval: time.Nanosecond},
		{Max: 1, Interval: time.Microsecond},
		{Max: 100, Interval: time.Second},
		{Max: 3, Interval: 100 * time.Second},
		{Max: 1, Interval: math.MaxInt64},
		{Max: math.MaxInt64, Interval: 1},
	},
	limiter.SlidingWindow: {windowOf(5, 1), windowOf(300, 1), windowOf(math.MaxInt64, 1)},
	limiter.FixedWindow:   {windowOf(5, 1), windowOf(70_000, 1)},
	limiter.WindowBuckets: {windowOf(5, 3), windowOf(5, 4), windowOf(300, 60), windowOf(7, window.MaxParts)},
	limiter.WindowLog:     {logOf(5, 100), logOf(1000, 4), logOf(1000, 1000)},
	limiter.TokenBucket:   {bucketOf(5, 1), bucketOf(100, 7)},
	limiter.LeakyBucket:   {{Max: 5, Interval: time.Second}, {Max: 100, Interval: time.Millisecond}},

	limiter.ScaledThrottle: {{Max: 5, Interval: time.Second}, {Max: 100, Interval: time.Millisecond}, {Max: 3, Interval: 100 * time.Second}},
	limiter.ScaledBucket:   {bucketOf(5, 1), bucketOf(100, 7), {Max: 8, Interval: time.Second, Amount: 3}},
	limiter.ScaledLeaky:    {{Max: 5, Interval: time.Second}, {Max: 100, Interval: time.Millisecond}},
	limiter.Calendar:       {calendarOf(5, 20), calendarOf(300, 500)},
	limiter.Ban:            {{Max: 1, Interval: time.Second}, {Max: 1, Interval: time.Minute}},
}

func must(l limiter.Limit, err error) limiter.Limit {
	if err != nil {
		panic(err)
	}
	return l
}

func windowOf(limit, parts int64) limiter.Limit {
	return must(window.NewLimit(limit, limiter.Seconds(20), parts))
}

// calendarOf returns a limit for the window that ends some seconds after the start of the test clocks.
func calendarOf(limit int64, seconds uint64) limiter.Limit {
	return must(window.NewCalendarLimit(limit, start, start+seconds*uint64(time.Second)))
}

func logOf(limit, entries int64) limiter.Limit {
	return must(windowlog.NewLimit(limit, limiter.Seconds(20), entries))
}

func bucketOf(capacity, refill int64) limiter.Limit {
	return must(tokenbucket.NewLimit(capacity, refill, limiter.Seconds(5)))
}

func (r *tableRun) request() limiter.Request {
	quantities := [...]int64{1, 1, 1, 1, 2, 5, 0, -1, -3, 6, math.MaxInt64, math.MinInt64, 100}
	which, how := r.in.number(1), r.in.number(1)
	req := limiter.Request{Key: r.key(), Quantity: quantities[how%uint64(len(quantities))]}
	req.Kind = limiter.Kind(1 + len(req.Key)%len(limits))
	if how >= 0xf0 {
		req.Kind = limiter.Kind(1 + which%uint64(len(limits)))
	}
	of := limits[req.Kind]
	req.Limit = of[which%uint64(len(of))]
	req.Trial = which >= 0xe0
	return req
}

// decide decides a batch of requests, some of them in groups.
func (r *tableRun) decide(n int) {
	linked := r.in.number(1)
	if r.evict {
		n, linked = 1, 0 // the model must drop evicted keys before the next decision
	}
	reqs := make([]limiter.Request, n)
	for i := range reqs {
		reqs[i] = r.request()
		reqs[i].Linked = linked>>i&1 != 0 && i < n-1
	}
	got := make([]limiter.Decision, n)
	r.table.Decide(reqs, got)
	if r.evict {
		defer r.forgetEvicted(reqs[0].Key)
	}
	for i := 0; i < n; {
		end := groupEnd(reqs, i)
		r.check(reqs[i:end], got[i:end])
		i = end
	}
}

// check compares the decisions on a request or a group with the decisions of the model.
func (r *tableRun) check(reqs []limiter.Request, got []limiter.Decision) {
	if errors.Is(got[0].Err, limiter.ErrOutOfMemory) {
		r.refused(reqs, got)
		return
	}
	now := r.clock.read()
	var want []limiter.Decision
	if len(reqs) == 1 {
		want = append(want, r.model.decide(&reqs[0], now))
	} else {
		want = r.model.decideGroup(reqs, now)
	}
	if !slices.Equal(got, want) {
		r.Fatalf("Decide(%+v)\n got %+v\nwant %+v", reqs, got, want)
	}
}

// refused checks that a refusal of a request or a group for lack of memory is permitted.
func (r *tableRun) refused(reqs []limiter.Request, got []limiter.Decision) {
	grows := false
	for i := range reqs {
		_, live := r.model.lookup(string(reqs[i].Key), r.clock.read())
		if reqs[i].Trial {
			continue // needs no memory
		}
		grows = grows || !live || reqs[i].Kind == limiter.WindowLog || reqs[i].Kind == limiter.SlidingWindow ||
			reqs[i].Kind == limiter.FixedWindow || reqs[i].Kind == limiter.WindowBuckets
	}
	for i := range got {
		if got[i] != (limiter.Decision{Err: limiter.ErrOutOfMemory}) {
			r.Fatalf("a request refused for lack of memory: got %+v, want only ErrOutOfMemory", got[i])
		}
	}
	if !grows || r.max == 0 {
		r.Fatalf("%+v was refused for lack of memory, with memory limit %d; want this only if there is a limit and a request needs memory", reqs, r.max)
	}
}

func (r *tableRun) lookup() {
	key := r.key()
	now := r.clock.read()
	want, live := r.model.lookup(string(key), now)
	got, ok := r.table.Lookup(key)
	if ok != live {
		r.Fatalf("Lookup(%.40q) = %+v, %t; the model has %+v", key, got, ok, want)
	}
	entry := limiter.Entry{Kind: want.kind, TTL: time.Duration(want.tat - now), Bytes: got.Bytes, State: want.tat ^ xxhash.Sum64String(want.state)}
	if ok && (got != entry || got.Bytes <= int64(len(key))) || !ok && got != (limiter.Entry{}) {
		r.Fatalf("Lookup(%.40q) = %+v, %t; the model has %+v", key, got, ok, want)
	}
}

func (r *tableRun) remove() {
	key := r.key()
	want := r.model.forget(string(key), r.clock.read())
	if got := mustDelete(r.table, key); got != want {
		r.Fatalf("Delete(%.40q) = %t, want %t", key, got, want)
	}
}

// scan continues the current round of scanning, or starts a round if there is none.
func (r *tableRun) scan() {
	now := r.clock.read()
	if r.round == nil {
		r.round = &scanRound{stable: map[string]int{}, seen: map[string]bool{}}
		for key, rec := range r.model.records {
			if rec.tat > now {
				r.round.stable[key] = rec.born
			}
		}
	}
	r.round.cursor = r.table.Scan(r.round.cursor, int(r.in.number(1)), func(key []byte, kind limiter.Kind) {
		if rec, live := r.model.live(string(key), now); !live || rec.kind != kind {
			r.Fatalf("Scan visits %.40q of kind %d, the model has %+v", key, kind, rec)
		}
		r.round.seen[string(key)] = true
	})
	if r.round.cursor != 0 {
		return
	}
	for key, born := range r.round.stable {
		if rec, live := r.model.live(key, now); live && rec.born == born && !r.round.seen[key] {
			r.Fatalf("the scan did not visit %.40q, which existed during the whole scan", key)
		}
	}
	r.round = nil
}

// compare checks that the table holds exactly the keys of the model.
func (r *tableRun) compare() {
	now := r.clock.read()
	live := 0
	for key := range r.model.records {
		want, ok := r.model.lookup(key, now)
		got, found := r.table.Lookup([]byte(key))
		if found != ok || ok && (got.State != want.tat^xxhash.Sum64String(want.state) || got.Kind != want.kind) {
			r.Fatalf("key %.40q: Lookup returns %+v, %t; the model has %+v", key, got, found, want)
		}
		if ok {
			live++
		}
	}
	visits := 0
	if next := r.table.Scan(0, math.MaxInt, func([]byte, limiter.Kind) { visits++ }); next != 0 || visits != live {
		r.Fatalf("a complete scan visits %d of %d keys and returns cursor %d, want all keys and 0", visits, live, next)
	}
	for rec := range r.table.Records() {
		want, ok := r.model.live(string(rec.Key), now)
		if !ok || want.kind != rec.Kind || want.tat != rec.Expires || want.state != string(rec.State) {
			r.Fatalf("Records yields %+v, the model has %+v", rec, want)
		}
		live--
	}
	if live != 0 {
		r.Fatalf("Records omits %d keys", live)
	}
}

// counts checks the counters of the table.
func (r *tableRun) counts() {
	got := r.table.Usage()
	want := r.model.want
	want.Keys -= got.Expired
	want.Bytes, want.Peak, want.Expired, want.Dataset, want.Pauses = got.Bytes, got.Peak, got.Expired, got.Dataset, got.Pauses
	if got != want {
		r.Fatalf("Usage() = %+v, want %+v", got, want)
	}
	if r.max > 0 && got.Peak > r.max {
		r.Fatalf("the memory limit is %d, but the peak is %d", r.max, got.Peak)
	}
}

func TestModel(t *testing.T) {
	for seed := range uint64(40 / race.Factor) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			runTable(t, randomTape(rand.New(rand.NewPCG(seed, 2)), 6000))
		})
	}
}

func FuzzTable(f *testing.F) {
	f.Add([]byte{})
	for seed := range uint64(4) {
		data := randomTape(rand.New(rand.NewPCG(seed, 3)), 300)
		data[0], data[1] = byte(seed), byte(seed)
		f.Add(data)
	}
	// A key is charged and expires, and is then looked up and charged again.
	f.Add([]byte{0, 0, 63, 0, 0, 4, 3, 0, 0, 0, 255, 0, 4, 63, 0, 0, 4})
	// The memory limit has room for short keys, but not for a long one.
	f.Add([]byte{0, 2, 63, 3, 0, 4, 63, 3, 0, 5, 1, 4, 63, 3, 0, 13, 63, 3, 0, 27})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 6000 {
			runTable(t, data)
		}
	})
}
