package main

import (
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
	p, err := newPlot(r)
	if err != nil {
		return err
	}
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
	image, err := p.WriterTo(20*vg.Centimeter, 12*vg.Centimeter, format)
	if err != nil {
		return err
	}
	return writeFile(name, image)
}

func writeFile(name string, content io.WriterTo) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = content.WriteTo(f)
	return errors.Join(err, f.Close())
}

// newPlot returns the plot. Its x axis is 1/(1-p) for percentile p on a logarithmic
// scale, so that each further nine has the same width.
func newPlot(r *results) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "Latency by percentile: " + r.config.work.usual.text
	p.X.Label.Text = "percentile"
	p.Y.Label.Text = "microseconds"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker = plot.TickerFunc(percentileTicks)
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for i, t := range r.totals {
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
		p.Add(line)
		p.Legend.Add(t.target, line)
	}
	frame(p)
	return p, nil
}

// frame extends the axes to whole decades, which also gives a flat line some height.
func frame(p *plot.Plot) {
	p.X.Min, p.X.Max = 1, max(10, p.X.Max)
	if p.Y.Min > p.Y.Max { // no line
		p.Y.Min, p.Y.Max = 1, 10
	}
	p.Y.Min = math.Pow(10, math.Floor(math.Log10(p.Y.Min)))
	p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Max))+1)
}

// curve returns the points of a line, ten per decade, as long as at least one latency
// lies beyond the point.
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

// percentileTicks returns ticks at 0 %, 90 %, 99 % and so on.
func percentileTicks(_, most float64) (ticks []plot.Tick) {
	label := "0"
	for x := 1.0; x <= most*1.001; x *= 10 {
		ticks = append(ticks, plot.Tick{Value: x, Label: label + " %"})
		switch label {
		case "0":
			label = "90"
		case "90":
			label = "99"
		case "99":
			label = "99.9"
		default:
			label += "9"
		}
	}
	return ticks
}
