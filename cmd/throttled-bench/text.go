package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// writeText writes the report as text: the settings, a table of the figures, errors and notes.
func writeText(w io.Writer, r *results) error {
	var b strings.Builder
	writeHead(&b, r)
	writeTable(&b, r)
	for _, t := range r.totals {
		for _, f := range t.failures {
			fmt.Fprintf(&b, "\n%s: %s error replies: %s", t.target, grouped(float64(f.Count)), f.First)
		}
		for _, note := range t.notes {
			fmt.Fprintf(&b, "\n%s: %s", t.target, note)
		}
	}
	_, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n")+"\n")
	return err
}

func writeHead(b *strings.Builder, r *results) {
	c := r.config
	fmt.Fprintf(b, "%s\n", c.work.regular.text)
	if c.work.exhausted != nil {
		fmt.Fprintf(b, "share of requests to exhausted keys: %v, with %s\n", c.work.denied, c.work.exhausted.text)
	}
	loop := "closed loop"
	if c.rate > 0 {
		loop = fmt.Sprintf("open loop at %s requests per second", grouped(c.rate))
	}
	fmt.Fprintf(b, "%s keys, %v; %d connections, depth %d, %s\n", grouped(float64(c.work.layout.keys)), c.work.dist, c.conns, c.depth, loop)
	fmt.Fprintf(b, "%s after a warm-up of %v", c.extent(), c.warmup)
	if c.rounds > 1 {
		fmt.Fprintf(b, "; medians of %d rounds", c.rounds)
	}
	if r.interrupted {
		b.WriteString("; interrupted")
	}
	b.WriteString("\n\n")
}

// extent returns the limits of a round as text: requests, duration or both.
func (c *config) extent() string {
	var parts []string
	if c.requests > 0 {
		parts = append(parts, grouped(float64(c.requests))+" requests")
	}
	if c.duration < never {
		parts = append(parts, c.duration.String())
	}
	return strings.Join(parts, " or ")
}

// Widths of the columns.
const (
	labelWidth = 26
	valueWidth = 14
	ratioWidth = 8
)

func writeTable(b *strings.Builder, r *results) {
	fmt.Fprintf(b, "%-*s", labelWidth, "")
	for i, t := range r.totals {
		fmt.Fprintf(b, "  %*s", t.width(), t.target)
		if i > 0 {
			fmt.Fprintf(b, "%*s", ratioWidth, "ratio")
		}
	}
	b.WriteString("\n")
	for f := range figureCount {
		writeRow(b, r.totals, f)
	}
}

func (t *result) width() int { return max(valueWidth, len(t.target)) }

// writeRow writes the row of a figure. It omits the row if no target has the figure, or
// if the figure is quiet and zero for all targets.
func writeRow(b *strings.Builder, totals []*result, f figure) {
	info, shown := figureTable[f], false
	for _, t := range totals {
		shown = shown || !math.IsNaN(t.values[f]) && (t.values[f] != 0 || !info.quiet)
	}
	if !shown {
		return
	}
	line := fmt.Sprintf("%-*s", labelWidth, info.label)
	for i, t := range totals {
		line += fmt.Sprintf("  %*s", t.width(), info.unit.format(t.values[f]))
		if i > 0 {
			line += fmt.Sprintf("%*s", ratioWidth, formatRatio(t.values.ratio(totals[0].values, f)))
		}
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

func formatRatio(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'f', 2, 64) + "x"
}

func (u unit) format(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	switch u {
	case whole:
		return grouped(v)
	case micros:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case percent:
		return strconv.FormatFloat(100*v, 'f', 2, 64)
	case mebi:
		return strconv.FormatFloat(v/(1<<20), 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// grouped formats a number rounded to an integer, with commas between groups of three digits.
func grouped(v float64) string {
	digits := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if v <= -0.5 {
		return "-" + digits
	}
	return digits
}
