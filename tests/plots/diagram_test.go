package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
)

// area is a rectangle. Its coordinates may be fractions of pixels.
type area struct{ left, top, right, bottom float64 }

// overlaps reports whether there are less than gap pixels between two areas.
func (a area) overlaps(o area, gap float64) bool {
	return a.left < o.right+gap && o.left < a.right+gap && a.top < o.bottom+gap && o.top < a.bottom+gap
}

// contains reports whether a contains another area, with at least gap pixels between their
// edges.
func (a area) contains(o area, gap float64) bool {
	return a.left+gap <= o.left && o.right+gap <= a.right && a.top+gap <= o.top && o.bottom+gap <= a.bottom
}

func (r rect) area() area {
	return area{float64(r.x), float64(r.y), float64(r.x + r.width), float64(r.y + r.height)}
}

// area returns the bounding box of a text in the widest expected font.
func (t caption) area() area {
	style := textStyle(vg.Length(t.size), ink)
	width, extents := float64(style.Width(t.content)*slack), style.FontExtents()
	left := float64(t.at.x) - map[anchor]float64{anchorStart: 0, anchorMiddle: 0.5, anchorEnd: 1}[t.anchor]*width
	return area{left, float64(t.at.y) - float64(extents.Ascent), left + width, float64(t.at.y) + float64(extents.Descent)}
}

// areas returns the bounding boxes of the segments of an arrow with its head.
func (a arrow) areas() (list []area) {
	for i, p := range a.points[1:] {
		from := a.points[i]
		list = append(list, area{
			float64(min(from.x, p.x)), float64(min(from.y, p.y)),
			float64(max(from.x, p.x)), float64(max(from.y, p.y)),
		})
	}
	return list
}

// TestArchitectureTexts checks that the texts of each block are inside the block, that the
// labels of arrows are outside all blocks and lines, and that no two texts touch.
func TestArchitectureTexts(t *testing.T) {
	d := architecture()
	page := rect{0, 0, d.width, d.height}.area()
	var all []caption
	for _, b := range d.blocks {
		for _, line := range b.texts() {
			if !b.rect.area().contains(line.area(), 3) {
				t.Errorf("%q at %+v exceeds its block, %+v", line.content, line.area(), b.rect.area())
			}
			all = append(all, line)
		}
	}
	for _, a := range d.arrows {
		if a.label.content == "" {
			continue
		}
		for _, b := range d.blocks {
			if b.rect.area().overlaps(a.label.area(), 2) {
				t.Errorf("%q at %+v touches the block %q", a.label.content, a.label.area(), b.name)
			}
		}
		for _, other := range d.arrows {
			for _, segment := range other.areas() {
				if segment.overlaps(a.label.area(), 2) {
					t.Errorf("%q at %+v touches a line at %+v", a.label.content, a.label.area(), segment)
				}
			}
		}
		all = append(all, a.label)
	}
	for i, line := range all {
		if !page.contains(line.area(), 2) {
			t.Errorf("%q at %+v exceeds the image", line.content, line.area())
		}
		for _, other := range all[:i] {
			if line.area().overlaps(other.area(), 1) {
				t.Errorf("%q at %+v touches %q at %+v", line.content, line.area(), other.content, other.area())
			}
		}
	}
}

// TestArchitectureBlocks checks that blocks do not touch unless a frame contains a box,
// and that arrows connect the edges of blocks.
func TestArchitectureBlocks(t *testing.T) {
	d := architecture()
	for i, b := range d.blocks {
		if !(rect{0, 0, d.width, d.height}).area().contains(b.rect.area(), 10) {
			t.Errorf("%q exceeds the image", b.name)
		}
		for _, other := range d.blocks[:i] {
			inside := other.shape == frame && b.shape == box && other.rect.area().contains(b.rect.area(), 8)
			if !inside && b.rect.area().overlaps(other.rect.area(), 8) {
				t.Errorf("%q overlaps %q", b.name, other.name)
			}
			if name := other.texts()[0]; inside && b.rect.area().overlaps(name.area(), 2) {
				t.Errorf("%q overlaps the name of %q", b.name, other.name)
			}
		}
	}
	for _, a := range d.arrows {
		for _, p := range []point{a.points[0], a.points[len(a.points)-1]} {
			if !d.onEdge(p) {
				t.Errorf("the arrow %v is not connected at %v", a.points, p)
			}
		}
	}
}

// onEdge reports whether a point is on the edge of a block.
func (d diagram) onEdge(p point) bool {
	for _, b := range d.blocks {
		at, outer := area{float64(p.x), float64(p.y), float64(p.x), float64(p.y)}, b.rect.area()
		if outer.contains(at, 0) && !outer.contains(at, 1) {
			return true
		}
	}
	return false
}

// TestArchitectureSVG checks the size, the description and the texts of the image, and that the
// documents show the image.
func TestArchitectureSVG(t *testing.T) {
	content, err := architecture().svg()
	if err != nil {
		t.Fatal(err)
	}
	var image struct {
		XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
		Width   int      `xml:"width,attr"`
		Title   string   `xml:"title"`
		Desc    string   `xml:"desc"`
		Style   string   `xml:"style"`
		Texts   []string `xml:"text"`
	}
	if err := xml.Unmarshal(content, &image); err != nil {
		t.Fatal(err)
	}
	if image.Width == 0 || image.Width > 800 || image.Title == "" || image.Desc == "" || !strings.Contains(image.Style, "prefers-color-scheme: dark") {
		t.Errorf("the image is %+v; want a width of at most 800, a title, a description, and a style for dark mode", image)
	}
	for _, want := range []string{"RESP reader", "shard 1", "GCRA", "Raft log", "Snapshots", "Followers", "redis-cli"} {
		if !strings.Contains(strings.Join(image.Texts, "\n"), want) {
			t.Errorf("the image has no text %q", want)
		}
	}
	for _, name := range []string{"README.md", "ARCHITECTURE.md"} {
		document, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil || !strings.Contains(string(document), "](docs/plots/architecture.svg)") {
			t.Errorf("%s does not show docs/plots/architecture.svg: %v", name, err)
		}
	}
}

func TestArrowHead(t *testing.T) {
	for want, points := range map[string][]point{
		"M10,50L14,42L6,42Z":    {{10, 0}, {10, 50}},
		"M10,0L6,8L14,8Z":       {{10, 50}, {10, 0}},
		"M50,10L42,14L42,6Z":    {{0, 10}, {50, 10}},
		"M0,10L8,6L8,14Z":       {{50, 10}, {0, 10}},
		"M100,50L104,42L96,42Z": {{0, 10}, {100, 10}, {100, 50}},
	} {
		if got := (arrow{points: points}).head(); got != want {
			t.Errorf("the head of %v is %s; want %s", points, got, want)
		}
	}
}
