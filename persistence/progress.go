package persistence

import (
	"log/slog"
	"time"
)

// progressEvery is the interval between progress messages in the log. A load or save that
// takes less time logs only one line, at its end.
const progressEvery = 2 * time.Second

// progressLog logs the progress of one load or save.
type progressLog struct {
	log     *slog.Logger
	message string
	total   int64 // the value that done, the argument of step, has at the end; 0 if unknown
	started time.Time
	next    time.Time // time of the next line
}

func (s *Store) newProgressLog(message string, total int64) *progressLog {
	now := time.Now()
	return &progressLog{log: s.log, message: message, total: total, started: now, next: now.Add(progressEvery)}
}

// step logs the progress if progressEvery has elapsed since the last line. The logged percentage is
// the ratio of the argument done to p.total.
func (p *progressLog) step(done, keys, bytes int64) {
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

// end logs the last line.
func (p *progressLog) end(message string, args ...any) {
	p.log.Info(message, append(args, "duration", time.Since(p.started).Round(time.Millisecond))...)
}
