package cluster

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/failpoint"
	"github.com/throttledhq/throttled/limiter"
)

// committedState provides the log time and the records for persistence.Write.
type committedState struct {
	clock *logClock
	table *buckets.Table
}

// Now returns the log time of the newest applied entry.
func (c committedState) Now() uint64 { return c.clock.lastApplied() }

// Records returns the committed records.
func (c committedState) Records() iter.Seq[limiter.Record] {
	if failpoint.Is(failpoint.DirtySnapshot) {
		return c.table.Records()
	}
	return c.table.CommittedRecords()
}

func lengthOf(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }

var errHead = errors.New("the head of the snapshot is damaged")

// readHead reads the head of a snapshot.
func readHead(r io.Reader) (*head, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, fmt.Errorf("%w: %w", errHead, err)
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > maxHead {
		return nil, fmt.Errorf("head of %d bytes: %w", n, errHead)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("%w: %w", errHead, err)
	}
	var h head
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, fmt.Errorf("%w: %w", errHead, err)
	}
	if h.Version < snapshotVersion || h.Version > usersSnapshotVersion {
		return nil, fmt.Errorf("version %d: %w", h.Version, errHead)
	}
	if err := h.Heartbeat.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errHead, err)
	}
	return &h, nil
}
