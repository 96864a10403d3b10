package buckets

import (
	"errors"
	"fmt"

	"github.com/throttledhq/throttled/limiter"
)

// ErrLeading is returned by operations that require a follower, if the table is the leader. Replay also
// returns it if the table is not replicated.
var ErrLeading = errors.New("the table is not a follower")

// Replay applies changes that Collect has returned on another node. The argument now is the log time
// of the changes in nanoseconds. Afterwards, records that expire at or before this time may be
// dropped permanently. The memory limit does not apply.
//
// Changes must be replayed in the order of their generations. The caller may restart the replay at a
// generation that the table has already applied. The state is then incorrect until the replay has
// reached the latest generation that was applied before the restart.
//
// Replay returns ErrChanges if the changes are malformed, and then applies none of them. It returns
// ErrLeading if the table is the leader or is not replicated, and limiter.ErrOutOfMemory if a shard
// would exceed 4 GiB.
func (t *Table) Replay(changes []byte, now uint64) error {
	if err := checkChanges(changes); err != nil {
		return fmt.Errorf("replay changes: %w", err)
	}
	t.roleMu.Lock()
	defer t.roleMu.Unlock()
	if t.undoLogs == nil || t.leader != 0 {
		return fmt.Errorf("replay changes: %w", ErrLeading)
	}
	if now < t.settled.Load() {
		t.settled.Store(now) // the next changes may need records that expire after now
	}
	if len(changes) > 0 {
		if err := t.replayAll(readerOf(changes[1:])); err != nil {
			return fmt.Errorf("replay changes: %w", err)
		}
	}
	t.settled.Store(now)
	return nil
}

// replayAll applies changes in batches, and prefetches the memory of a batch before it applies it.
func (t *Table) replayAll(r reader) error {
	var batch [maxLookahead]change
	var hashes [maxLookahead]uint64
	for len(r.Rest) > 0 {
		n := 0
		for ; n < len(batch) && len(r.Rest) > 0; n++ {
			batch[n], _ = r.change() // already validated by checkChanges
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
	for r := readerOf(changes[1:]); len(r.Rest) > 0; {
		at := len(changes) - len(r.Rest)
		if _, err := r.change(); err != nil {
			return fmt.Errorf("at byte %d: %w", at, err)
		}
	}
	return nil
}

func (t *Table) replay(c *change, hash uint64) error {
	if c.op == changeClear {
		t.clear()
		return nil
	}
	s, tag := t.shardAndTag(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c.op {
	case changeDelete:
		s.applyDelete(c.rec.Key, tag)
	case changeTail:
		s.putTail(c, tag)
	default:
		return s.putUnlimited(&c.rec, tag)
	}
	return nil
}

// applyDelete removes a key if it has a record.
func (s *shard) applyDelete(key []byte, tag uint32) {
	if at, found := s.find(key, tag); found {
		s.remove(at)
		s.changes++
	}
}

// putTail applies an update of the tail of a state. It ignores the update if the key is absent or has
// a state of another kind or size. In this case older changes are being replayed over newer ones, and
// a later change contains the complete record.
func (s *shard) putTail(c *change, tag uint32) {
	at, found := s.find(c.rec.Key, tag)
	tail := limiter.Change{Expires: c.rec.Expires, Keep: c.from, Tail: c.rec.State}
	if found && s.fits(at, c.rec.Kind, &tail) {
		s.record(at).overwrite(&tail, gauge(c.rec.Gauge))
		s.changes++
	}
}

// putUnlimited stores a record, even an expired one, in place of any existing record of its key.
// The memory limit does not apply.
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

// Restore stores a record of a snapshot, regardless of the memory limit. If the record has expired
// at time now, in nanoseconds, Restore deletes its key instead. The error is ErrChanges if the kind
// is unknown, ErrLeading if the table is the leader, or limiter.ErrOutOfMemory if a shard would
// exceed 4 GiB.
func (t *Table) Restore(rec limiter.Record, now uint64) error {
	if !rec.Kind.Known() {
		return fmt.Errorf("restore a record of kind %d: %w", uint8(rec.Kind), ErrChanges)
	}
	s, tag := t.locate(rec.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recording() {
		return fmt.Errorf("restore a record: %w", ErrLeading)
	}
	if rec.Expires <= now {
		s.applyDelete(rec.Key, tag)
		return nil
	}
	return s.putUnlimited(&rec, tag)
}
