package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	_ "gonum.org/v1/plot/vg/vgimg" // PNG
	_ "gonum.org/v1/plot/vg/vgsvg" // SVG
)

// writePlot writes a plot of the latency of each target by percentile to the file name.
func writePlot(name string, r *results) error {
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
	image, err := drawPlot(format, r)
	if err != nil {
		return err
	}
	return writeFile(name, bytes.NewReader(image))
}

func writeFile(name string, content io.WriterTo) error {
	f, err := os.Create(name) // #nosec G304 G703 -- the operator chooses the path
	if err != nil {
		return err
	}
	_, err = content.WriteTo(f)
	return errors.Join(err, f.Close())
}

// drawPlot returns the plot as an image in a format: "svg" or "png".
func drawPlot(format string, r *results) ([]byte, error) {
	lines, err := newSeries(r.totals)
	if err != nil {
		return nil, err
	}
	head := newHeading("Latency by percentile", r.config.work.regular.text, lines)
	return head.draw(format, newPlot(lines))
}

// series is the line of one target.
type series struct {
	name string
	line *plotter.Line
}

// newSeries returns the lines of all targets that have latencies.
func newSeries(totals []*result) (lines []series, err error) {
	for i, t := range totals {
		points := curve(t.latency)
		if len(points) == 0 {
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, fmt.Errorf("line of %s: %w", t.target, err)
		}
		line.Color = plotutil.Color(i)
		line.Width = vg.Points(1.5)
		line.Dashes = plotutil.Dashes(i)
		lines = append(lines, series{t.target, line})
	}
	return lines, nil
}

// newPlot returns the axes and the lines. The x axis shows 1/(1-p) for percentile p on a
// logarithmic scale, so that 90 %, 99 %, 99.9 % and so on are equally spaced. The y axis
// is also logarithmic.
func newPlot(lines []series) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // heading.draw paints the background
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Add(plotter.NewGrid())
	for _, s := range lines {
		p.Add(s.line)
	}
	frame(p)
	styleAxes(p)
	return p
}

// frame extends the axes to whole decades, so that the y axis has a range even if the line
// is flat.
func frame(p *plot.Plot) {
	p.X.Min, p.X.Max = 1, max(10, p.X.Max)
	if p.Y.Min > p.Y.Max { // no line
		p.Y.Min, p.Y.Max = 1, 10
	}
	p.Y.Min = math.Pow10(int(math.Floor(math.Log10(p.Y.Min))))
	p.Y.Max = math.Pow10(int(math.Floor(math.Log10(p.Y.Max))) + 1)
}

// curve returns the points of a line, ten per decade. It ends at the highest percentile
// beyond which there is at least one latency. Latencies are in microseconds.
func curve(h *hdrhistogram.Histogram) (points plotter.XYs) {
	const perDecade = 10
	for i := 0; ; i++ {
		beyond := math.Pow(10, -float64(i)/perDecade)
		if beyond*float64(h.TotalCount()) < 1 {
			return points
		}
		latency := max(h.ValueAtPercentile(100*(1-beyond)), h.Min(), 1) // a logarithmic axis has no zero
		points = append(points, plotter.XY{X: 1 / beyond, Y: float64(latency) / 1e3})
	}
}
