package buckets

import (
	"errors"
	"fmt"

	"github.com/throttledhq/throttled/limiter"
)

// ErrLeading is returned by what only a table that follows can do.
var ErrLeading = errors.New("this table decides itself")

// Replay puts what Collect has made on another node, at log time now in nanoseconds: records
// that expire until then may be dropped for good afterwards. It is put whatever the memory
// limit.
//
// Changes are to be replayed in the order of their generations. To begin with some that the
// table has already, or to repeat some, does no harm once the newest of those has been
// replayed again.
//
// The error is ErrChanges, and then nothing has been put; ErrLeading; or limiter.ErrOutOfMemory
// if a shard holds more than 4 GiB.
func (t *Table) Replay(changes []byte, now uint64) error {
	if err := checkChanges(changes); err != nil {
		return fmt.Errorf("replay changes: %w", err)
	}
	t.turn.Lock()
	defer t.turn.Unlock()
	if t.journals == nil || t.leader != 0 {
		return fmt.Errorf("replay changes: %w", ErrLeading)
	}
	if now < t.settled.Load() {
		t.settled.Store(now) // what has expired since may be needed for what comes
	}
	if len(changes) > 0 {
		if err := t.replayAll(reader{rest: changes[1:]}); err != nil {
			return fmt.Errorf("replay changes: %w", err)
		}
	}
	t.settled.Store(now)
	return nil
}

// replayAll puts changes, and asks for the memory of several before it waits for that of one.
func (t *Table) replayAll(r reader) error {
	var batch [maxLookahead]change
	var hashes [maxLookahead]uint64
	for len(r.rest) > 0 {
		n := 0
		for ; n < len(batch) && len(r.rest) > 0; n++ {
			batch[n], _ = r.change() // has been checked
			hashes[n] = t.hash(batch[n].rec.Key)
			t.fetchSlot(hashes[n])
		}
		t.fetchRecords(hashes[:n])
		for i := range n {
			if err := t.replay(&batch[i], hashes[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkChanges(changes []byte) error {
	if len(changes) == 0 {
		return nil
	}
	if changes[0] != changesVersion {
		return fmt.Errorf("version %d: %w", changes[0], ErrChanges)
	}
	for r := (reader{rest: changes[1:]}); len(r.rest) > 0; {
		at := len(changes) - len(r.rest)
		if _, err := r.change(); err != nil {
			return fmt.Errorf("at byte %d: %w", at, err)
		}
	}
	return nil
}

func (t *Table) replay(c *change, hash uint64) error {
	if c.what == changeClear {
		t.clear()
		return nil
	}
	s, tag := t.shardAndTag(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c.what {
	case changeAbsent:
		s.putAbsent(c.rec.Key, tag)
	case changeTail:
		s.putTail(c, tag)
	default:
		return s.putUnlimited(&c.rec, tag)
	}
	return nil
}

func (s *shard) putAbsent(key []byte, tag uint32) {
	if at, found := s.find(key, tag); found {
		s.remove(at)
		s.changes++
	}
}

// putTail puts the end of a state. If there is no such state, changes are being replayed over
// newer ones: one that is still to come has the whole.
func (s *shard) putTail(c *change, tag uint32) {
	at, found := s.find(c.rec.Key, tag)
	tail := limiter.Change{Expires: c.rec.Expires, Keep: c.from, Tail: c.rec.State}
	if found && s.fits(at, c.rec.Kind, &tail) {
		s.record(at).overwrite(&tail, gauge(c.rec.Gauge))
		s.changes++
	}
}

// putUnlimited stores a record over what there is under its key, even one whose time has
// passed, and whatever the memory limit.
func (s *shard) putUnlimited(rec *limiter.Record, tag uint32) error {
	whole := limiter.Change{Expires: rec.Expires, Tail: rec.State}
	if at, found := s.find(rec.Key, tag); found && s.fits(at, rec.Kind, &whole) {
		s.overwrite(at, &whole, gauge(rec.Gauge), 0)
		return nil
	}
	s.unlimited = true
	defer func() { s.unlimited = false }()
	return s.replace(rec, tag, 0)
}

// Restore puts a record of a snapshot, whatever the memory limit. One that has expired at now,
// in nanoseconds, takes its key away. The error is ErrChanges for an unknown kind, ErrLeading,
// or limiter.ErrOutOfMemory if a shard holds more than 4 GiB.
func (t *Table) Restore(rec limiter.Record, now uint64) error {
	if !rec.Kind.Known() {
		return fmt.Errorf("restore a record of kind %d: %w", uint8(rec.Kind), ErrChanges)
	}
	s, tag := t.locate(rec.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.journaling() {
		return fmt.Errorf("restore a record: %w", ErrLeading)
	}
	if rec.Expires <= now {
		s.putAbsent(rec.Key, tag)
		return nil
	}
	return s.putUnlimited(&rec, tag)
}
