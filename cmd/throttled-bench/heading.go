package main

import (
	"bytes"
	"image/color"
	"sort"
	"strings"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The sizes of the image, in points.
const (
	plotWidth  vg.Length = 640
	plotHeight vg.Length = 300 // of the part below the heading
	plotMargin vg.Length = 12
	titleSize  vg.Length = 12
	rowHeight            = 1.4 // of a row of text, as a multiple of the size of its font
	thumbnail  vg.Length = 24  // length of the line in a legend entry
	thumbGap   vg.Length = 5   // between the line of a legend entry and the name
	entryGap   vg.Length = 14  // between the entries of a row
)

// heading is the text above a plot: the title, the command, and the legend. The legend is
// not inside the plot, where it could cover a line.
type heading struct {
	title, command string
	rows           [][]series // the rows of the legend
}

// newHeading returns a heading whose texts fit the width of the image.
func newHeading(title, command string, lines []series) heading {
	small := lettering(labelSize)
	const room = plotWidth - 2*plotMargin
	h := heading{title: title, command: fitted(small, command, room)}
	at := room // a full row, so that the first entry begins a new row
	for _, s := range lines {
		s.name = fitted(small, s.name, room-thumbnail-thumbGap)
		taken := thumbnail + thumbGap + width(small, s.name)
		if at+entryGap+taken > room {
			h.rows = append(h.rows, nil)
			at = -entryGap
		}
		last := len(h.rows) - 1
		h.rows[last] = append(h.rows[last], s)
		at += entryGap + taken
	}
	return h
}

// fitted returns a text without control characters, shortened at its end to fit a width.
func fitted(style text.Style, s string, room vg.Length) string {
	runes := []rune(strings.Map(printable, s))
	if width(style, string(runes)) <= room {
		return string(runes)
	}
	n := sort.Search(len(runes), func(n int) bool { return width(style, string(runes[:n+1])+"…") > room })
	return string(runes[:n]) + "…"
}

// printable returns r, or a question mark if r is not printable. XML cannot contain most
// control characters.
func printable(r rune) rune {
	if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
		return '?'
	}
	return r
}

// height returns the height of the heading.
func (h heading) height() vg.Length {
	return titleSize*rowHeight + labelSize*rowHeight*vg.Length(1+len(h.rows)) + labelSize
}

// draw returns an image of the heading and the plot in a format: "svg" or "png".
func (h heading) draw(format string, p *plot.Plot) ([]byte, error) {
	canvas, err := draw.NewFormattedCanvas(plotWidth, h.height()+plotHeight, format)
	if err != nil {
		return nil, err
	}
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(c.Path())
	c = draw.Crop(c, plotMargin, -plotMargin, plotMargin, -plotMargin)
	h.write(c)
	p.Draw(draw.Crop(c, 0, 0, 0, -h.height()))
	var image bytes.Buffer
	if _, err := canvas.WriteTo(&image); err != nil {
		return nil, err
	}
	if format == "svg" {
		return withFallbackFonts(image.Bytes()), nil
	}
	return image.Bytes(), nil
}

// write writes the heading at the top of a canvas.
func (h heading) write(c draw.Canvas) {
	small, at := lettering(labelSize), vg.Point{X: c.Min.X, Y: c.Max.Y}
	c.FillText(lettering(titleSize), at, h.title)
	at.Y -= titleSize * rowHeight
	c.FillText(small, at, h.command)
	for _, row := range h.rows {
		at = vg.Point{X: c.Min.X, Y: at.Y - labelSize*rowHeight}
		for _, s := range row {
			middle := at.Y - labelSize*rowHeight/2
			c.StrokeLine2(s.line.LineStyle, at.X, middle, at.X+thumbnail, middle)
			at.X += thumbnail + thumbGap
			c.FillText(small, at, s.name)
			at.X += width(small, s.name) + entryGap
		}
	}
}

// withFallbackFonts adds replacements for the font of an SVG. The characters of Arial have
// the same widths as those of Liberation Sans.
func withFallbackFonts(svg []byte) []byte {
	const family = "font-family:Liberation Sans;"
	return bytes.ReplaceAll(svg, []byte(family), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
}
