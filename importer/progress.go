package importer

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Bar returns a function for [Config.Progress] that draws a bar on a terminal, and one
// that removes it.
func Bar(terminal io.Writer) (progress func(done, total int64), remove func()) {
	var bar *progressbar.ProgressBar
	progress = func(done, total int64) {
		if bar == nil {
			bar = newBar(terminal, total)
		}
		if total > 0 {
			done = min(done, total) // SCAN may name more keys than there were at first
		}
		_ = bar.Set64(done) // what cannot be shown must not end the import
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
		progressbar.OptionSetSpinnerChangeInterval(0), // no goroutine that draws by itself
	)
}

// Lines returns a function for [Config.Progress] that writes a line now and then, for logs:
// one whenever so much time has passed since the last, by the clock now.
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
		_, _ = fmt.Fprintf(w, "%d%s keys read\n", done, of) // what cannot be shown must not end the import
	}
}
