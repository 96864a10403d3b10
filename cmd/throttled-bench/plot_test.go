package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// box is the bounding box of a text in an SVG. The y axis points down.
type box struct {
	text                     string
	left, top, right, bottom vg.Length
}

// touches reports whether the distance between two boxes is less than a point.
func (b box) touches(o box) bool {
	return b.left < o.right+1 && o.left < b.right+1 && b.top < o.bottom+1 && o.top < b.bottom+1
}

// svgImage is an SVG by gonum, which moves the origin to the lower left corner.
type svgImage struct {
	ViewBox string `xml:"viewBox,attr"`
	Group   struct {
		Texts []struct {
			X     vg.Length `xml:"x,attr"`
			Y     vg.Length `xml:"y,attr"`
			Style string    `xml:"style,attr"`
			Text  string    `xml:",chardata"`
		} `xml:"text"`
		Moved []struct{} `xml:"g"` // groups with their own transformation
	} `xml:"g"`
}

var fontSize = regexp.MustCompile(`font-size:([0-9.]+)px`)

// parsePlot returns the bounding box of each text in a plot, and the bounds of the image.
// The boxes are wide enough for replacement fonts.
func parsePlot(t *testing.T, svg []byte) (texts []box, bounds box) {
	t.Helper()
	var image svgImage
	if err := xml.Unmarshal(svg, &image); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(image.ViewBox, "0 0 %f %f", (*float64)(&bounds.right), (*float64)(&bounds.bottom)); err != nil {
		t.Fatalf("viewBox %q: %v", image.ViewBox, err)
	}
	if len(image.Group.Moved) > 0 {
		t.Fatal("the SVG has groups with their own transformations; the test cannot compute the positions of their texts")
	}
	for _, s := range image.Group.Texts {
		match := fontSize.FindStringSubmatch(s.Style)
		if match == nil {
			t.Fatalf("%q has no font size", s.Text)
		}
		size, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		style, base := lettering(vg.Length(size)), bounds.bottom+s.Y
		extents := style.FontExtents()
		texts = append(texts, box{s.Text, s.X, base - extents.Ascent, s.X + width(style, s.Text), base + extents.Descent})
	}
	return texts, bounds
}

// checkLayout draws a plot, and checks that no text is clipped or touches another one. It
// returns the texts.
func checkLayout(t *testing.T, name string, r *results) (shown []string) {
	t.Helper()
	svg, err := drawPlot("svg", r)
	if err != nil {
		t.Fatalf("draw %s: %v", name, err)
	}
	texts, bounds := parsePlot(t, svg)
	for i, b := range texts {
		if b.left < bounds.left || b.right > bounds.right || b.top < bounds.top || b.bottom > bounds.bottom {
			t.Errorf("%s: %q at %+v exceeds the image, %+v", name, b.text, b, bounds)
		}
		for _, other := range texts[:i] {
			if b.touches(other) {
				t.Errorf("%s: %q at %+v touches %q at %+v", name, b.text, b, other.text, other)
			}
		}
		shown = append(shown, b.text)
	}
	return shown
}

// plotOf returns the results of a run in which all targets have the same latencies. Each
// latency occurs n times.
func plotOf(t *testing.T, command string, targets []string, n int, latencies ...int64) *results {
	t.Helper()
	c, err := parseFlags(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c.work.regular.text = command
	r := &results{config: c}
	for _, name := range targets {
		total := &result{target: name, latency: newHistogram()}
		for _, l := range latencies {
			record(total.latency, l, n)
		}
		r.totals = append(r.totals, total)
	}
	return r
}

func TestPlotLayout(t *testing.T) {
	f := func(name string, r *results, want ...string) {
		t.Helper()
		shown := checkLayout(t, name, r)
		for _, w := range want {
			if !slices.Contains(shown, w) {
				t.Errorf("%s: the plot has no text %q, only %q", name, w, shown)
			}
		}
	}
	one := []string{"127.0.0.1:6380"}
	f("a usual run", sample(t), "10 µs", "20 µs", "50 µs", "100 µs", "1 ms", "10 ms", "0 %", "90 %", "99 %", "99.9 %", "a:1", "b:2")
	f("no latencies", plotOf(t, "PING", one, 0), "1 µs", "10 µs", "PING")
	f("equal latencies", plotOf(t, "PING", one, 10, 300_000), "100 µs", "200 µs", "500 µs", "1 ms", "90 %")
	f("the shortest", plotOf(t, "PING", one, 1, 1), "1 ns", "5 ns", "10 ns")
	f("all decades", plotOf(t, "PING", one, 10, 1, int64(longest)), "1 ns", "1 µs", "1 ms", "1 s", "100 s")
	f("many requests", plotOf(t, "PING", one, 10_000_000, 70_000), "99.9 %", "99.99999 %")
	f("very many requests", plotOf(t, "PING", one, 30_000_000_000, 70_000), "0 %", "99.99 %")
	f("a long command", plotOf(t, strings.Repeat("SET {key} {n} ", 50), one, 10, 300_000))
	f("a command with control characters", plotOf(t, "SET {key} \"a\nb\x01\xff\"", one, 10, 300_000), `SET {key} "a?b??"`)
	var targets []string
	for i := range 40 {
		targets = append(targets, fmt.Sprintf("10.1.2.%d:6380", i))
	}
	f("many targets", plotOf(t, "PING", targets, 10, 300_000), targets...)
	f("a target with a long name", plotOf(t, "PING", []string{"/run/" + strings.Repeat("long/", 50) + "x.sock", "short"}, 10, 300_000), "short")
}

// labels returns the labels of ticks.
func labels(ticks []plot.Tick) string {
	var list []string
	for _, tick := range ticks {
		if tick.Label != "" {
			list = append(list, tick.Label)
		}
	}
	return strings.Join(list, ", ")
}

func TestLatencyTicks(t *testing.T) {
	f := func(least, most float64, want string) {
		t.Helper()
		ticks := latencyTicks(least, most)
		if got := labels(ticks); got != want {
			t.Errorf("labels from %v to %v us: %s; want %s", least, most, got, want)
		}
		if ticks[0].Value != least || ticks[len(ticks)-1].Value != most {
			t.Errorf("from %v to %v us: the first tick is at %v, the last one at %v; want them at the ends", least, most, ticks[0].Value, ticks[len(ticks)-1].Value)
		}
	}
	f(100, 1000, "100 µs, 200 µs, 500 µs, 1 ms")
	f(0.1, 10, "100 ns, 200 ns, 500 ns, 1 µs, 2 µs, 5 µs, 10 µs")
	f(1, 1e5, "1 µs, 10 µs, 100 µs, 1 ms, 10 ms, 100 ms")
	f(1e4, 1e8, "10 ms, 100 ms, 1 s, 10 s, 100 s")
}

func TestPercentileTicks(t *testing.T) {
	f := func(most float64, want string) {
		t.Helper()
		if got := labels(percentileTicks(1, most)); got != want {
			t.Errorf("labels up to %v: %s; want %s", most, got, want)
		}
	}
	f(10, "0 %, 90 %")
	f(5e5, "0 %, 90 %, 99 %, 99.9 %, 99.99 %, 99.999 %")
	f(1e10, "0 %, 99 %, 99.99 %, 99.9999 %, 99.999999 %, 99.99999999 %")
}

func TestFitted(t *testing.T) {
	style := lettering(labelSize)
	long := strings.Repeat("wide", 100)
	for room := vg.Length(20); room < 200; room++ {
		s := fitted(style, long, room)
		if w := width(style, s); w > room || !strings.HasSuffix(s, "…") || w < room-15 {
			t.Fatalf("fitted returns %q, which is %v wide; want an ellipsis at the end, and a width of %v or up to 15 less", s, w, room)
		}
	}
	if s := fitted(style, "short", 100); s != "short" {
		t.Errorf("a short text becomes %q; want no change", s)
	}
}
