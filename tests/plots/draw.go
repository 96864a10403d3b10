package main

import (
	"bytes"
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The sizes of the pictures, in points.
const (
	pageWidth  vg.Length = 620
	pageHeight vg.Length = 320
	cellHeight vg.Length = 170
	sheetWidth vg.Length = 800
	margin     vg.Length = 12
	titleRoom  vg.Length = 18 // above a plot
	legendRoom vg.Length = 20
)

// picture is a drawn file.
type picture struct {
	name string
	svg  []byte
}

// drawAll draws a picture of each algorithm, one with all of them, and the architecture.
func drawAll() ([]picture, error) {
	var pictures []picture
	algorithms := demoAlgorithms()
	for i := range algorithms {
		a := &algorithms[i]
		svg, err := render(pageWidth, pageHeight, func(c draw.Canvas) error { return drawPage(c, a) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.file, err)
		}
		pictures = append(pictures, picture{a.file + ".svg", svg})
	}
	height := vg.Length(sheetRows(algorithms))*cellHeight + legendRoom
	svg, err := render(sheetWidth, height, func(c draw.Canvas) error { return drawSheet(c, algorithms) })
	if err != nil {
		return nil, fmt.Errorf("all: %w", err)
	}
	pictures = append(pictures, picture{"all.svg", svg})
	if svg, err = architecture().svg(); err != nil {
		return nil, fmt.Errorf("architecture: %w", err)
	}
	return append(pictures, picture{"architecture.svg", svg}), nil
}

// fontFamilies lists the font of the plots and replacements for systems without that font.
// Arial has the same widths.
const fontFamilies = "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"

// render paints on a white canvas, and returns it as SVG.
func render(width, height vg.Length, paint func(draw.Canvas) error) ([]byte, error) {
	canvas := vgsvg.New(width, height)
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Path())
	if err := paint(draw.Crop(c, margin, -margin, margin, -margin)); err != nil {
		return nil, err
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return nil, err
	}
	return []byte(strings.ReplaceAll(svg.String(), "font-family:Liberation Sans;", fontFamilies)), nil
}

// drawPage draws one algorithm in full size.
func drawPage(c draw.Canvas, a *algorithm) error {
	ch := newChart(a.title, a.command, a.kind, play(a, demoTraffic()))
	ch.drawTitle(c)
	_, line := ch.counted()
	drawLegend(draw.Crop(c, 0, 0, 0, -titleRoom), line)
	p, err := ch.plot()
	if err != nil {
		return err
	}
	ch.addRows(p)
	p.X.Label.Text = "seconds (a window begins at each vertical line)"
	p.Draw(draw.Crop(c, 0, 0, 0, -titleRoom-legendRoom))
	return nil
}

// sheetRows returns the number of rows, with two plots each, for the algorithms and the requests.
func sheetRows(algorithms []algorithm) int { return (len(algorithms) + 2) / 2 }

// drawSheet draws the requests and all algorithms in small plots.
func drawSheet(c draw.Canvas, algorithms []algorithm) error {
	charts := []chart{newChart("The requests", "seconds; a window begins at each vertical line", 0, played{arrivals: demoTraffic()})}
	for i := range algorithms {
		a := &algorithms[i]
		charts = append(charts, newChart(a.title, a.command, a.kind, play(a, charts[0].arrivals)))
	}
	drawLegend(c, "admitted in the last 10 s (leaky bucket: proceeded)")
	tiles := draw.Tiles{Cols: 2, Rows: sheetRows(algorithms), PadX: 18, PadY: 8}
	field := draw.Crop(c, 0, 0, 0, -legendRoom)
	for i := range charts {
		cell := tiles.At(field, i%2, i/2)
		charts[i].drawTitle(cell)
		p, err := charts[i].plot()
		if err != nil {
			return err
		}
		p.Draw(draw.Crop(cell, 0, 0, 0, -titleRoom))
	}
	return nil
}
