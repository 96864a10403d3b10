package main

import (
	"image/color"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The plotters in this file draw many shapes as one path, which keeps the files small.

const barGap vg.Length = 0.6

// binWidth is the duration that a bar covers.
const binWidth = 500 * time.Millisecond

// bars are counts of requests, one bar for each binWidth.
type bars struct {
	counts []int
	color  color.Color
}

// count returns the number of times in each bin of the plot.
func count(times []time.Duration) []int {
	counts := make([]int, demoLength/binWidth)
	for _, at := range times {
		if bin := int(at / binWidth); bin < len(counts) {
			counts[bin]++
		}
	}
	return counts
}

func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var path vg.Path
	for i, n := range b.counts {
		if n == 0 {
			continue
		}
		left, right := x(float64(i)*binWidth.Seconds()), x(float64(i+1)*binWidth.Seconds())
		bottom, top := y(0), y(float64(n))
		path.Move(vg.Point{X: left, Y: bottom})
		path.Line(vg.Point{X: left, Y: top})
		path.Line(vg.Point{X: right - barGap, Y: top})
		path.Line(vg.Point{X: right - barGap, Y: bottom})
		path.Close()
	}
	c.SetColor(b.color)
	c.Fill(path)
}

// strokes are vertical lines of one height, one at each time within the plot.
type strokes struct {
	times    []time.Duration
	from, to float64 // on the vertical axis
	style    draw.LineStyle
}

func (s strokes) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var path vg.Path
	for _, at := range s.times {
		if at > demoLength {
			continue
		}
		path.Move(vg.Point{X: x(at.Seconds()), Y: y(s.from)})
		path.Line(vg.Point{X: x(at.Seconds()), Y: y(s.to)})
	}
	c.SetLineStyle(s.style)
	c.Stroke(path)
}

// level is a horizontal line across the plot.
type level struct {
	at    float64
	style draw.LineStyle
}

func (l level) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	c.StrokeLine2(l.style, c.Min.X, y(l.at), c.Max.X, y(l.at))
}

// windows are vertical lines at the starts of windows.
type windows struct{ style draw.LineStyle }

func (w windows) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for at := demoPeriod; at < demoLength; at += demoPeriod {
		c.StrokeLine2(w.style, x(at.Seconds()), c.Min.Y, x(at.Seconds()), c.Max.Y)
	}
}

// within returns the points of a step function. Its value is the number of times within the preceding
// period. The points are the positions at which this number changes. times must be sorted.
func within(times []time.Duration, period time.Duration) plotter.XYs {
	points := plotter.XYs{{X: 0, Y: 0}}
	step := func(at time.Duration, change float64) {
		last := &points[len(points)-1]
		switch x := at.Seconds(); {
		case at >= demoLength:
		case last.X == x:
			last.Y += change // one time enters the period as another leaves it
		default:
			points = append(points, plotter.XY{X: x, Y: last.Y + change})
		}
	}
	oldest := 0
	for _, at := range times {
		for times[oldest]+period <= at {
			step(times[oldest]+period, -1)
			oldest++
		}
		step(at, 1)
	}
	for ; oldest < len(times); oldest++ {
		step(times[oldest]+period, -1)
	}
	return append(points, plotter.XY{X: demoLength.Seconds(), Y: points[len(points)-1].Y})
}
