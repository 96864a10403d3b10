package peerlink

import (
	"log/slog"
	"sync"
	"time"
)

// notices writes lines to the log that strangers can cause, so it writes few.
type notices struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	kinds map[string]*notice // of a fixed set
}

type notice struct {
	last time.Time // when a line of this kind was written
	left int       // lines left out since
}

// warn writes a line unless one of its kind was written less than a period ago. A line
// tells how many were left out before it.
func (n *notices) warn(kind string, period time.Duration, text string, args ...any) {
	left, ok := n.take(kind, period)
	if !ok {
		return
	}
	if left > 0 {
		args = append(args, "lines left out", left)
	}
	n.log.Warn(text, args...)
}

func (n *notices) take(kind string, period time.Duration) (left int, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	k := n.kinds[kind]
	if k == nil {
		n.kinds[kind] = &notice{last: now}
		return 0, true
	}
	if now.Sub(k.last) < period {
		k.left++
		return 0, false
	}
	left = k.left
	*k = notice{last: now}
	return left, true
}
