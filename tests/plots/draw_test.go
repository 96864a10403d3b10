package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"gonum.org/v1/plot/plotter"
)

const plotsDir = "../../docs/plots"

// TestPlotsAreCurrent checks that the plots in the documentation equal the output of this program.
func TestPlotsAreCurrent(t *testing.T) {
	pictures, err := drawAll()
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[string]bool{}
	for _, p := range pictures {
		drawn[p.name] = true
		committed, err := os.ReadFile(filepath.Join(plotsDir, p.name))
		if err != nil {
			t.Error(err)
		}
		if !bytes.Equal(committed, p.svg) {
			t.Errorf("docs/plots/%s is outdated: run make plots", p.name)
		}
	}
	files, err := os.ReadDir(plotsDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !drawn[f.Name()] {
			t.Errorf("docs/plots/%s is not drawn by this program", f.Name())
		}
	}
}

// TestPlotsAreXML checks that the plots are well-formed, and that each has the title of its
// algorithm.
func TestPlotsAreXML(t *testing.T) {
	pictures, err := drawAll()
	if err != nil {
		t.Fatal(err)
	}
	algorithms := demoAlgorithms()
	if len(pictures) != len(algorithms)+2 {
		t.Fatalf("got %d pictures, want one for each of the %d algorithms, one of all of them, and one of the architecture", len(pictures), len(algorithms))
	}
	for i, p := range pictures {
		texts := textsOf(t, p)
		for j, a := range algorithms {
			if shown := texts[a.title] && texts[a.command]; shown != (i == j || p.name == "all.svg") {
				t.Errorf("%s: contains the title and the command of %s: %v, want the opposite", p.name, a.file, shown)
			}
		}
	}
}

// textsOf returns the texts in a picture.
func textsOf(t *testing.T, p picture) map[string]bool {
	t.Helper()
	texts := map[string]bool{}
	for d := xml.NewDecoder(bytes.NewReader(p.svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		} else if err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		if text, is := token.(xml.CharData); is {
			texts[string(text)] = true
		}
	}
}

func TestWithin(t *testing.T) {
	const s = second
	for name, c := range map[string]struct {
		times []time.Duration
		want  plotter.XYs
	}{
		"none":                         {nil, plotter.XYs{{X: 0, Y: 0}, {X: 60, Y: 0}}},
		"one":                          {[]time.Duration{5 * s}, plotter.XYs{{X: 0, Y: 0}, {X: 5, Y: 1}, {X: 15, Y: 0}, {X: 60, Y: 0}}},
		"simultaneous":                 {atOnce(5*s, 2), plotter.XYs{{X: 0, Y: 0}, {X: 5, Y: 2}, {X: 15, Y: 0}, {X: 60, Y: 0}}},
		"one enters as another leaves": {[]time.Duration{5 * s, 15 * s}, plotter.XYs{{X: 0, Y: 0}, {X: 5, Y: 1}, {X: 15, Y: 1}, {X: 25, Y: 0}, {X: 60, Y: 0}}},
		"the end":                      {[]time.Duration{55 * s}, plotter.XYs{{X: 0, Y: 0}, {X: 55, Y: 1}, {X: 60, Y: 1}}},
		"beyond":                       {[]time.Duration{59 * s, 61 * s}, plotter.XYs{{X: 0, Y: 0}, {X: 59, Y: 1}, {X: 60, Y: 1}}},
		"overlapping":                  {[]time.Duration{0, 4 * s}, plotter.XYs{{X: 0, Y: 1}, {X: 4, Y: 2}, {X: 10, Y: 1}, {X: 14, Y: 0}, {X: 60, Y: 0}}},
	} {
		if got := within(c.times, 10*s); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestCount(t *testing.T) {
	counts := count([]time.Duration{0, second/2 - 1, second / 2, demoLength - 1, demoLength, 2 * demoLength})
	if counts[0] != 2 || counts[1] != 1 || counts[len(counts)-1] != 1 || sum(counts) != 4 {
		t.Errorf("got %v, want 2 in the first bin, 1 in the second, 1 in the last, and 4 in total", counts)
	}
}

// TestDrawInto checks that drawInto writes and lists the pictures, and that it returns an error if
// the directory does not exist.
func TestDrawInto(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	if err := drawInto(dir, &out); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile(filepath.Join(dir, "all.svg"))
	if err != nil || !bytes.HasPrefix(all, []byte("<?xml")) {
		t.Errorf("all.svg: error: %v, content: %.20q; want content that begins with <?xml", err, all)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 9 {
		t.Errorf("%d files listed, want 9:\n%s", n, out.String())
	}
	if err := drawInto(filepath.Join(dir, "missing"), &out); err == nil {
		t.Error("missing directory: no error, want one")
	}
}
