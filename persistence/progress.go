package persistence

import (
	"log/slog"
	"time"
)

// progressEvery is how often the log says how far a load or save is. One that takes
// less has one line, at its end.
const progressEvery = 2 * time.Second

// progress tells the log how one load or save goes on.
type progress struct {
	log     *slog.Logger
	message string
	total   int64 // of what done counts in step; 0 if it is not known
	started time.Time
	next    time.Time // of the next line
}

func (s *Store) newProgress(message string, total int64) *progress {
	now := time.Now()
	return &progress{log: s.log, message: message, total: total, started: now, next: now.Add(progressEvery)}
}

// step writes a line if it is time for one.
func (p *progress) step(done, keys, bytes int64) {
	now := time.Now()
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(progressEvery)
	percent := int64(0)
	if p.total > 0 {
		percent = min(100, int64(float64(done)/float64(p.total)*100))
	}
	p.log.Info(p.message, "percent", percent, "keys", keys, "bytes", bytes)
}

// end writes the last line.
func (p *progress) end(message string, args ...any) {
	p.log.Info(message, append(args, "duration", time.Since(p.started).Round(time.Millisecond))...)
}
