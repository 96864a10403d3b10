package peerlink

import (
	"log/slog"
	"sync"
	"time"
)

// notices writes log lines that unauthenticated peers can cause, at a limited rate.
type notices struct {
	log *slog.Logger
	now func() time.Time

	mu    sync.Mutex
	kinds map[string]*notice // the set of keys is fixed
}

type notice struct {
	last time.Time // time of the last line of this kind
	left int       // lines suppressed since then
}

// warn writes a line unless one of its kind was written less than a period ago. A line
// includes the number of lines suppressed before it.
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
