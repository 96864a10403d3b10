package transport

import (
	"log/slog"
	"time"

	"github.com/throttledhq/throttled/internal/lograte"
)

// rateLog limits the rate of log lines that unauthenticated peers can cause, to one line
// of each kind per period. A line includes the number of lines of its kind that were dropped since the
// previous line.
type rateLog struct {
	log           *slog.Logger
	now           func() time.Time
	minute, daily *lograte.Limiter
}

func newRateLog(log *slog.Logger, now func() time.Time) *rateLog {
	return &rateLog{log: log, now: now, minute: lograte.New(1, time.Minute), daily: lograte.New(1, 24*time.Hour)}
}

// warn writes a line unless a line of the same kind was written less than a minute ago.
func (n *rateLog) warn(kind, text string, args ...any) { n.write(n.minute, kind, text, args) }

// warnDaily writes a line unless a line of the same kind was written less than a day ago.
func (n *rateLog) warnDaily(kind, text string, args ...any) { n.write(n.daily, kind, text, args) }

func (n *rateLog) write(limit *lograte.Limiter, kind, text string, args []any) {
	missed, ok := limit.Allow(kind, n.now())
	if !ok {
		return
	}
	if missed > 0 {
		args = append(args, "dropped_lines", missed)
	}
	n.log.Warn(text, args...)
}
