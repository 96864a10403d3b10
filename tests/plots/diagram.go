package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// diagram is a drawing of blocks and arrows. Its lengths are in pixels, and its origin is the upper
// left corner.
type diagram struct {
	width, height int
	title, desc   string // text for readers that cannot see the drawing
	blocks        []block
	arrows        []arrow
}

type point struct{ x, y int }

type rect struct{ x, y, width, height int }

// shape is the kind of a block, and its class in the style sheet.
type shape string

const (
	frame shape = "frame" // has its name at the upper left, and may contain boxes
	box   shape = "box"   // has its name and notes in the middle
)

// block is a labeled rectangle.
type block struct {
	shape shape
	rect  rect
	name  string
	notes []string // lines below the name
}

// arrow is a line of horizontal and vertical segments with its head at the last point.
type arrow struct {
	points []point
	label  caption
}

// anchor determines which part of a text is at its point.
type anchor string

const (
	anchorStart  anchor = "start"
	anchorMiddle anchor = "middle"
	anchorEnd    anchor = "end"
)

// caption is a line of text. Its point is on the baseline.
type caption struct {
	content string
	at      point
	anchor  anchor
	size    int
}

// The sizes of text.
const (
	large     = 13
	small     = 11
	lineSpace = 15 // between baselines
)

// texts returns the name and the notes of a block at their places.
func (b block) texts() []caption {
	if b.shape == frame {
		return []caption{{b.name, point{b.rect.x + 12, b.rect.y + 19}, anchorStart, large}}
	}
	at := point{b.rect.x + b.rect.width/2, b.rect.y + (b.rect.height-lineSpace*(1+len(b.notes)))/2 + large - 1}
	lines := []caption{{b.name, at, anchorMiddle, large}}
	for _, note := range b.notes {
		at.y += lineSpace
		lines = append(lines, caption{note, at, anchorMiddle, small})
	}
	return lines
}

// The size of an arrow head: its length along the line, and its width across the line.
const (
	headLength = 8
	headWidth  = 4 // to either side
)

// path returns the line of an arrow in the syntax of SVG.
func (a arrow) path() string {
	var b bytes.Buffer
	command := "M"
	for _, p := range a.points {
		fmt.Fprintf(&b, "%s%d,%d", command, p.x, p.y)
		command = "L"
	}
	return b.String()
}

// head returns the triangle at the end of an arrow in the syntax of SVG.
func (a arrow) head() string {
	from, tip := a.points[len(a.points)-2], a.points[len(a.points)-1]
	dx, dy := sign(tip.x-from.x), sign(tip.y-from.y)
	x, y := tip.x-headLength*dx, tip.y-headLength*dy
	return fmt.Sprintf("M%d,%dL%d,%dL%d,%dZ", tip.x, tip.y, x+headWidth*dy, y+headWidth*dx, x-headWidth*dy, y-headWidth*dx)
}

func sign(n int) int {
	switch {
	case n > 0:
		return 1
	case n < 0:
		return -1
	}
	return 0
}

// The elements of an SVG.
type (
	svgImage struct {
		XMLName    xml.Name `xml:"http://www.w3.org/2000/svg svg"`
		Width      int      `xml:"width,attr"`
		Height     int      `xml:"height,attr"`
		ViewBox    string   `xml:"viewBox,attr"`
		Role       string   `xml:"role,attr"`
		LabelledBy string   `xml:"aria-labelledby,attr"`
		Title      svgNote  `xml:"title"`
		Desc       svgNote  `xml:"desc"`
		Style      svgStyle `xml:"style"`
		Shapes     []any
	}
	svgNote struct {
		ID   string `xml:"id,attr"`
		Text string `xml:",chardata"`
	}
	svgStyle struct {
		Sheet string `xml:",innerxml"`
	}
	svgRect struct {
		XMLName xml.Name `xml:"rect"`
		Class   string   `xml:"class,attr"`
		X       int      `xml:"x,attr"`
		Y       int      `xml:"y,attr"`
		Width   int      `xml:"width,attr"`
		Height  int      `xml:"height,attr"`
		Radius  int      `xml:"rx,attr"`
	}
	svgPath struct {
		XMLName xml.Name `xml:"path"`
		Class   string   `xml:"class,attr"`
		Data    string   `xml:"d,attr"`
	}
	svgText struct {
		XMLName xml.Name `xml:"text"`
		Class   string   `xml:"class,attr"`
		X       int      `xml:"x,attr"`
		Y       int      `xml:"y,attr"`
		Anchor  anchor   `xml:"text-anchor,attr"`
		Size    int      `xml:"font-size,attr"`
		Text    string   `xml:",chardata"`
	}
)

// styleSheet sets a background in light and dark mode, since the mode of the page around
// the image is unknown. The font families are the same as in the plots.
const styleSheet = `
    text { font-family: Liberation Sans, Arial, Helvetica, sans-serif; fill: #333B47; }
    .label { fill: #5A6473; }
    .page { fill: #FFFFFF; }
    .frame { fill: #F3F5F8; stroke: #C3C9D2; }
    .box { fill: #FFFFFF; stroke: #5B9BDC; }
    .line { fill: none; stroke: #6B7585; stroke-width: 1.5; }
    .head { fill: #6B7585; }
    @media (prefers-color-scheme: dark) {
      text { fill: #E6EAF0; }
      .label { fill: #AEB8C6; }
      .page { fill: #12161C; }
      .frame { fill: #1B222C; stroke: #3C4756; }
      .box { fill: #232D3A; stroke: #5B9BDC; }
      .line { stroke: #9AA5B4; }
      .head { fill: #9AA5B4; }
    }
  `

// svg returns the diagram as an SVG.
func (d diagram) svg() ([]byte, error) {
	image := svgImage{
		Width: d.width, Height: d.height, ViewBox: fmt.Sprintf("0 0 %d %d", d.width, d.height),
		Role: "img", LabelledBy: "title desc",
		Title: svgNote{"title", d.title}, Desc: svgNote{"desc", d.desc}, Style: svgStyle{styleSheet},
		Shapes: []any{svgRect{Class: "page", Width: d.width, Height: d.height}},
	}
	for _, b := range d.blocks {
		image.Shapes = append(image.Shapes, svgRect{Class: string(b.shape), X: b.rect.x, Y: b.rect.y, Width: b.rect.width, Height: b.rect.height, Radius: 4})
		for _, t := range b.texts() {
			image.Shapes = append(image.Shapes, t.element("name"))
		}
	}
	for _, a := range d.arrows {
		image.Shapes = append(image.Shapes, svgPath{Class: "line", Data: a.path()}, svgPath{Class: "head", Data: a.head()})
		if a.label.content != "" {
			image.Shapes = append(image.Shapes, a.label.element("label"))
		}
	}
	content, err := xml.MarshalIndent(image, "", "  ")
	return append(content, '\n'), err
}

func (t caption) element(class string) svgText {
	return svgText{Class: class, X: t.at.x, Y: t.at.y, Anchor: t.anchor, Size: t.size, Text: t.content}
}
