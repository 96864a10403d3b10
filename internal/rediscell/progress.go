package rediscell

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Bar returns a function for [Config.Progress] that draws a progress bar on a terminal, and
// a function that removes the bar.
func Bar(terminal io.Writer) (progress func(done, total int64), remove func()) {
	var bar *progressbar.ProgressBar
	progress = func(done, total int64) {
		if bar == nil {
			bar = newBar(terminal, total)
		}
		if total > 0 {
			done = min(done, total) // SCAN may return more keys than the initial total
		}
		_ = bar.Set64(done) // an error of the terminal must not stop the import
	}
	remove = func() {
		if bar != nil {
			_ = bar.Clear()
		}
	}
	return progress, remove
}

func newBar(w io.Writer, total int64) *progressbar.ProgressBar {
	if total == 0 {
		total = -1 // a spinner
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription("reading"),
		progressbar.OptionSetItsString("keys"),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetSpinnerChangeInterval(0), // no goroutine that redraws the spinner
	)
}

// Lines returns a function for [Config.Progress] that writes progress as log lines. The every
// parameter is the minimum time between two lines, and the now parameter is the clock.
func Lines(w io.Writer, every time.Duration, now func() time.Time) func(done, total int64) {
	last := now()
	return func(done, total int64) {
		if now().Sub(last) < every {
			return
		}
		last = now()
		of := ""
		if total > 0 {
			of = fmt.Sprintf(" of about %d", total)
		}
		_, _ = fmt.Fprintf(w, "%d%s keys read\n", done, of) // a write error must not stop the import
	}
}
