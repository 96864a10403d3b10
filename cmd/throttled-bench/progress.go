package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progressLine is the progress line of a round.
type progressLine struct {
	w     io.Writer // nil if the line is not shown
	title string

	last      int64 // time of the previous update
	lastTotal int64 // replies at the previous update
}

func newProgressLine(w io.Writer, c *config, target string, number int) *progressLine {
	p := &progressLine{title: fmt.Sprintf("%s round %d/%d", target, number+1, c.rounds)}
	if c.progress == "yes" || c.progress == "" && isTerminal(w) {
		p.w = w
	}
	return p
}

// isTerminal reports whether w is a character device. A character device that
// is no terminal, such as /dev/null, ignores the progress line.
func isTerminal(w io.Writer) bool {
	f, isFile := w.(*os.File)
	if !isFile {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// ticks returns the ticker for updates.
func (p *progressLine) ticks() *time.Ticker {
	if p.w == nil {
		return time.NewTicker(never)
	}
	return time.NewTicker(500 * time.Millisecond)
}

// update prints the line.
func (p *progressLine) update(r *round) {
	now := r.now()
	if now < r.from {
		p.print("%s  warm-up", p.title)
		return
	}
	sum := merged(r.recorders)
	total := sum.counts.total()
	rate := float64(total-p.lastTotal) / time.Duration(now-max(p.last, r.from)).Seconds()
	p.last, p.lastTotal = now, total
	p.print("%s  %.1fs  %.0f/s  p99 %v  denied %.1f %%  errors %d", p.title, time.Duration(now-r.from).Seconds(), rate,
		time.Duration(sum.latency.ValueAtPercentile(99)).Round(time.Microsecond),
		100*float64(sum.counts.denied)/float64(max(total, 1)), sum.counts.failed)
}

// eraseLine moves the cursor of a terminal to the beginning of the line and erases the line.
const eraseLine = "\r\x1b[K"

func (p *progressLine) print(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, eraseLine+format, args...) // errors do not affect the run
}

// clear erases the line.
func (p *progressLine) clear() {
	if p.w != nil {
		p.print("")
	}
}
