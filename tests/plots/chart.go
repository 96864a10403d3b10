package main

import (
	"image/color"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The colors of all plots.
var (
	ink        = color.RGBA{0x33, 0x3B, 0x47, 0xFF}
	softInk    = color.RGBA{0x6B, 0x75, 0x85, 0xFF}
	gridInk    = color.RGBA{0xDD, 0xE1, 0xE7, 0xFF}
	arrivalInk = color.RGBA{0xC3, 0xC9, 0xD2, 0xFF}
	passInk    = color.RGBA{0x5B, 0x9B, 0xDC, 0xFF}
	countInk   = color.RGBA{0x16, 0x2F, 0x5A, 0xFF}
	leaveInk   = color.RGBA{0x12, 0x8C, 0x7E, 0xFF}
	limitInk   = color.RGBA{0xD6, 0x4B, 0x1F, 0xFF}
)

// The vertical axis: counts above 0, and rows of strokes below.
const (
	axisTop    = 22
	rowHeight  = 1.8
	rowSpacing = 2.8
)

// chart is the plot of an algorithm.
type chart struct {
	played
	title, command string
	isQueue        bool // admitted requests are delayed
}

func newChart(title, command string, kind limiter.Kind, p played) chart {
	return chart{p, title, command, kind == limiter.LeakyBucket}
}

// counted returns the times that the line counts, and the name of the line.
func (ch *chart) counted() (times []time.Duration, what string) {
	if ch.isQueue {
		return ch.proceedAt, "proceeded in the last 10 s"
	}
	return ch.admitted, "admitted in the last 10 s"
}

// plot draws the bars, the line and the limit.
func (ch *chart) plot() (*plot.Plot, error) {
	p := emptyPlot()
	p.Add(bars{count(ch.arrivals), arrivalInk}, bars{count(ch.admitted), passInk})
	if len(ch.admitted) == 0 {
		return p, nil // a plot of the requests only, without an algorithm
	}
	times, _ := ch.counted()
	line, err := plotter.NewLine(within(times, demoPeriod))
	if err != nil {
		return nil, err
	}
	line.StepStyle = plotter.PostStep
	line.LineStyle = stroke(countInk, 1.4)
	p.Add(line, level{demoLimit, stroke(limitInk, 1.2, 5, 3)})
	return p, nil
}

// emptyPlot returns a plot with axes and a grid.
func emptyPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, demoLength.Seconds(), 0, axisTop
	p.X.Tick.Marker = marks(0, int(demoLength.Seconds()), 10)
	p.Y.Tick.Marker = marks(0, axisTop, 5)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Padding = 0
		axis.LineStyle = stroke(softInk, 0.6)
		axis.Tick.LineStyle = axis.LineStyle
		axis.Tick.Length = 4
		axis.Tick.Label.Color, axis.Tick.Label.Font = ink, sans(9)
		axis.Label.TextStyle.Color, axis.Label.TextStyle.Font = ink, sans(9)
		axis.Label.Padding = 2
	}
	p.Add(windows{stroke(gridInk, 0.8)})
	return p
}

// marks returns the labels of an axis.
func marks(from, to, step int) (ticks plot.ConstantTicks) {
	for at := from; at <= to; at += step {
		ticks = append(ticks, plot.Tick{Value: float64(at), Label: strconv.Itoa(at)})
	}
	return ticks
}

// addRows draws a stroke for each request below the bars.
func (ch *chart) addRows(p *plot.Plot) {
	type row struct {
		name  string
		times []time.Duration
		color color.Color
	}
	rows := []row{{"requests", ch.arrivals, softInk}, {"admitted", ch.admitted, passInk}}
	if ch.isQueue {
		rows = append(rows, row{"proceeding", ch.proceedAt, leaveInk})
	}
	ticks := marks(0, axisTop, 5)
	for i, r := range rows {
		top := -0.8 - rowSpacing*float64(i)
		p.Add(strokes{r.times, top - rowHeight, top, stroke(r.color, 0.8)})
		ticks = append(ticks, plot.Tick{Value: top - rowHeight/2, Label: r.name})
	}
	p.Y.Min = -0.8 - rowSpacing*float64(len(rows))
	p.Y.Tick.Marker = ticks
}

func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

func stroke(c color.Color, width vg.Length, dashes ...vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: width, Dashes: dashes}
}

// textStyle returns a text style whose origin is the upper left corner of the text.
func textStyle(size vg.Length, c color.Color) text.Style {
	return text.Style{Color: c, Font: sans(size), XAlign: text.XLeft, YAlign: text.YTop, Handler: plot.DefaultTextHandler}
}

// slack is the largest factor by which a replacement font may be wider than the measured
// font.
const slack = 1.15

// drawTitle draws the title and the command at the top of a canvas.
func (ch *chart) drawTitle(c draw.Canvas) {
	style := textStyle(12, ink)
	at := vg.Point{X: c.Min.X, Y: c.Max.Y}
	c.FillText(style, at, ch.title)
	at.X += style.Width(ch.title)*slack + 8
	at.Y -= 2 // align the baselines
	c.FillText(textStyle(10, softInk), at, ch.command)
}

// drawLegend draws the meanings of the colors in one row at the top of a canvas. The line argument is
// the name of the line in the plot.
func drawLegend(c draw.Canvas, line string) {
	entries := []struct {
		name  string
		style draw.LineStyle
	}{
		{"requests in 0.5 s", stroke(arrivalInk, 7)},
		{"of them admitted", stroke(passInk, 7)},
		{line, stroke(countInk, 1.4)},
		{"limit", stroke(limitInk, 1.2, 5, 3)},
	}
	style := textStyle(9, ink)
	at := vg.Point{X: c.Min.X, Y: c.Max.Y}
	for _, e := range entries {
		middle := at.Y - style.FontExtents().Height/2
		c.StrokeLine2(e.style, at.X, middle, at.X+16, middle)
		c.FillText(style, vg.Point{X: at.X + 21, Y: at.Y}, e.name)
		at.X += 21 + style.Width(e.name)*slack + 14
	}
}
