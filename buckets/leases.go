package buckets

import (
	"bytes"
	"errors"
	"sync/atomic"

	"github.com/throttledhq/throttled/lease"
	"github.com/throttledhq/throttled/limiter"
)

// leaseCounters counts the leases of a table.
type leaseCounters struct {
	granted, returned atomic.Uint64 // units
	stranded          atomic.Uint64 // the latest result of LeaseUsage, so that it never decreases

	pinned pinnedMemory

	// records holds the number of records with leases of each shard. The lock of the shard guards it.
	records []uint32
}

// LeaseFormat identifies the records with leases that a version of the program can read. A higher format includes the lower ones.
type LeaseFormat uint8

// CountLeases, LogLeases and LatestLeases are the formats of leases.
const (
	NoLeases    LeaseFormat = 0
	CountLeases LeaseFormat = 1 // of all leased kinds but WindowLog
	LogLeases   LeaseFormat = 2 // of WindowLog, too

	LatestLeases = LogLeases
)

// SetLeases sets the format of the leases that are granted. The default is LatestLeases. Versions that can read a format can
// decode the changes that Collect returns, once the records with leases of higher formats have expired or been deleted.
func (t *Table) SetLeases(f LeaseFormat) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.leases = f
		s.mu.Unlock()
	}
}

// has reports whether the format contains leases of a kind.
func (f LeaseFormat) has(kind limiter.Kind) bool {
	return f >= LogLeases || f == CountLeases && kind != limiter.WindowLog
}

// Leases calls yield for each outstanding lease, shard by shard, until yield returns false.
func (t *Table) Leases(yield func(limiter.Lease) bool) {
	for i := range t.shards {
		for _, l := range t.shards[i].outstanding(t.clock()) {
			if !yield(l) {
				return
			}
		}
	}
}

// LeasesUntil returns the limiter time in nanoseconds at which the last outstanding lease ends, or 0 if there is none.
func (t *Table) LeasesUntil() (until uint64) {
	now := t.clock()
	for l := range t.Leases {
		until = max(until, now+uint64(l.Left))
	}
	return until
}

// LeaseUsage returns the number of outstanding leases and of their units, and the counters of this table.
func (t *Table) LeaseUsage() (u limiter.LeaseUsage) {
	u.Granted, u.Returned = t.leases.granted.Load(), t.leases.returned.Load()
	for l := range t.Leases {
		u.Leases++
		u.Units += l.Units
		if l.Relaxed > 0 {
			u.Relaxed++
			u.Bound = max(u.Bound, l.Relaxed)
		}
	}
	if settled := u.Returned + uint64(u.Units); u.Granted > settled {
		raise(&t.leases.stranded, u.Granted-settled)
	}
	u.Stranded = t.leases.stranded.Load()
	return u
}

// outstanding returns the leases of the shard that have not ended.
func (s *shard) outstanding(now uint64) (all []limiter.Lease) {
	now = s.lock(now)
	defer s.mu.Unlock()
	if s.shared.leases.records[s.number] == 0 {
		return nil
	}
	for _, sl := range s.index {
		if sl == 0 {
			continue
		}
		rec := record(s.arena[sl.offset():])
		if !rec.pinned(now) {
			continue
		}
		key, kind := bytes.Clone(rec.key()), rec.kind().Base()
		for l := range lease.All(limiter.State{Expires: rec.expires(), Data: rec.state()}, now) {
			l.Key, l.Kind = key, kind
			all = append(all, l)
		}
	}
	return all
}

// pinned reports whether the record must not be evicted, because it has outstanding leases.
func (r record) pinned(now uint64) bool {
	return r.kind().Leased() && lease.Until(r.state()) > now
}

// countLeased adds n to the number of records with leases, if rec is such a record.
func (s *shard) countLeased(rec record, n int) {
	if rec.kind().Leased() {
		s.shared.leases.records[s.number] += uint32(n)
	}
}

// place is the result of the lookup of a key: the index position of its record, if it has one, and its state. The kind is
// that of the live record, or that of the request if the key is absent or has expired.
type place struct {
	at    int
	found bool
	kind  limiter.Kind
	old   limiter.State
}

// placed returns the place of a key as returned by the method state.
func (s *shard) placed(at int, found bool, req *limiter.Request, old limiter.State) place {
	p := place{at, found, req.Kind, old}
	if found && old.Expires > 0 {
		p.kind = s.record(at).kind()
	}
	return p
}

// decideLeased executes a request with a Draw, or a request on a key whose record does not have the kind of the request:
// it has leases, or the key is in use by another kind of limiter.
func (s *shard) decideLeased(p place, req *limiter.Request, tag uint32, now uint64, sc *scratch, out *limiter.Decision) {
	*out = limiter.Decision{}
	d := req.Draw
	switch {
	case d != nil && (req.Trial || req.Linked):
		out.Err = limiter.ErrGroup
	case d != nil && d.Return:
		out.Err = s.returnUnits(p, req, tag, now)
	case p.kind.Base() != req.Kind:
		out.Err = limiter.WrongKindError(p.kind.Base())
	case d != nil:
		if err := s.draw(p, req, tag, now, out); err != nil {
			*out = limiter.Decision{Err: err}
		}
	default:
		if err := s.decidePlain(p, req, tag, now, sc, out); err != nil {
			*out = limiter.Decision{Err: err}
		}
	}
}

// decidePlain executes a request without a Draw on a key with leases. If there is no memory to store the state without the
// leases that have ended, they stay.
func (s *shard) decidePlain(p place, req *limiter.Request, tag uint32, now uint64, sc *scratch, out *limiter.Decision) (err error) {
	for _, keep := range []bool{false, true} {
		var c limiter.Change
		var kind limiter.Kind
		c, kind, *out = lease.Plain(lease.Algorithm(algorithms[req.Kind]), req, p.old, now, keep, sc.room[:0], &sc.leases)
		if !c.Set || !stores(req, out) {
			return nil
		}
		if err = s.applyKind(p, kind, req.Key, &c, s.gaugeOf(req, out), tag, now, unbounded); !errors.Is(err, limiter.ErrOutOfMemory) {
			return err
		}
	}
	return err
}

// draw executes a draw. If there is no memory for its lease, nothing is granted.
func (s *shard) draw(p place, req *limiter.Request, tag uint32, now uint64, out *limiter.Decision) error {
	if !s.leases.has(req.Kind) {
		s.refuseDraw(p, req, now, out)
		return nil
	}
	var c limiter.Change
	var kind limiter.Kind
	if c, kind, *out = lease.Draw(lease.Algorithm(algorithms[req.Kind]), req, p.kind, p.old, now); !c.Set {
		return nil
	}
	err := s.applyKind(p, kind, req.Key, &c, s.gaugeOf(req, out), tag, now, s.pinLimit())
	switch {
	case err == nil:
		s.shared.leases.granted.Add(uint64(req.Draw.Granted))
	case errors.Is(err, limiter.ErrOutOfMemory):
		at, found, old, _ := s.state(req, tag, now) // an eviction may have moved or dropped the record
		s.refuseDraw(s.placed(at, found, req, old), req, now, out)
		return nil
	}
	return err
}

// returnUnits executes a return.
func (s *shard) returnUnits(p place, req *limiter.Request, tag uint32, now uint64) error {
	d := req.Draw
	d.Granted, d.Valid = 0, 0
	if !p.kind.Leased() {
		return nil
	}
	c, kind := lease.Return(lease.Algorithm(algorithms[p.kind.Base()]), req, p.kind, p.old, now)
	if !c.Set {
		return nil
	}
	if err := s.applyKind(p, kind, req.Key, &c, s.record(p.at).gauge(), tag, now, unbounded); err != nil {
		d.Granted = 0
		return err
	}
	s.shared.leases.returned.Add(uint64(d.Granted))
	return nil
}

// applyKind stores the change of a key whose record has the given kind afterwards. It returns limiter.ErrOutOfMemory, and
// changes nothing, if the records with outstanding leases would take more than the given maximum.
func (s *shard) applyKind(p place, kind limiter.Kind, key []byte, c *limiter.Change, g gauge, tag uint32, now uint64, most int64) error {
	pinned := &s.shared.leases.pinned
	old := s.pinAt(p, now)
	changed := old
	if c.Keep == 0 { // otherwise the size of the record and the ends of its leases remain
		changed = pinOf(kind, key, c.Tail, now)
	}
	if !pinned.replace(old, changed, most, now) {
		return limiter.ErrOutOfMemory
	}
	err := s.apply(p.at, p.found, &limiter.Request{Kind: kind, Key: key}, c, g, tag, now)
	if err != nil {
		pinned.replace(changed, old, unbounded, now)
	}
	return err
}

// reset deletes a live key except for the units of its outstanding leases. It returns false, and changes nothing, if the
// key has none, so that its record can be removed.
func (s *shard) reset(at int, tag uint32, now uint64) bool {
	rec, ok := s.record(at).reset(now)
	if ok {
		s.keep(&rec, tag)
	}
	return ok
}

// resets returns the records that remain if all keys are deleted: those of keys with outstanding leases.
func (s *shard) resets(now uint64) (kept []limiter.Record) {
	if s.shared.leases.records[s.number] == 0 {
		return nil
	}
	for _, sl := range s.index {
		if sl == 0 {
			continue
		}
		if rec, ok := record(s.arena[sl.offset():]).reset(now); ok {
			kept = append(kept, rec)
		}
	}
	return kept
}

// reset returns the record that remains if the key is deleted, and reports whether the key has outstanding leases.
func (r record) reset(now uint64) (kept limiter.Record, ok bool) {
	if !r.pinned(now) || r.expires() <= now {
		return kept, false
	}
	old := limiter.State{Expires: r.expires(), Data: r.state()}
	c, kind := lease.Reset(lease.Algorithm(algorithms[r.kind().Base()]), r.kind(), old, now)
	return limiter.Record{Kind: kind, Key: bytes.Clone(r.key()), Expires: c.Expires, State: c.Tail, Gauge: byte(r.gauge())}, c.Set
}

// keep stores the record of a deleted key with outstanding leases. The memory limit does not apply.
func (s *shard) keep(rec *limiter.Record, tag uint32) {
	if err := s.putUnlimited(rec, tag); err != nil {
		panic("buckets: no room for the leases of a deleted key: " + err.Error())
	}
}
