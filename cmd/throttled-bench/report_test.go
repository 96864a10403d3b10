package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sample returns a run with two targets and two rounds of invented figures.
func sample(t *testing.T) *results {
	t.Helper()
	c, err := parseFlags([]string{"-denied", "0.5", "-rounds", "2", "-conns", "4", "-threads", "2", "-rate", "5000", "a:1", "b:2"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r := &results{config: c}
	for round := 1; round <= 2; round++ {
		for i, name := range []string{"a:1", "b:2"} {
			one := &result{target: name, round: round, values: noValues(), latency: newHistogram(), good: 1000}
			for n := range int64(1000) {
				record(one.latency, int64(i+1)*(20_000+n*n), 1)
			}
			one.values.setLatency(one.latency)
			one.values[perSecond] = float64(1_234_567 / (i + round))
			one.values[requests], one.values[seconds] = 1010, 0.5
			one.values[deniedShare], one.values[errorShare], one.values[errorReplies] = 0.4999, 10.0/1010, 10
			one.values[generatorCores] = 0.456
			if i == 0 {
				one.values[serverCPU], one.values[serverRSS], one.values[serverGrowth] = 1.5, 50<<20, -1<<20
			}
			one.failures = failures{{"OOM", 10, "OOM full"}}
			one.notes = []string{"a note on the figures"}
			r.rounds = append(r.rounds, one)
		}
	}
	r.addTotal("a:1")
	r.addTotal("b:2")
	return r
}

// TestReports compares each format of the report with a golden file.
func TestReports(t *testing.T) {
	for form, write := range reports {
		var got bytes.Buffer
		if err := write(&got, sample(t)); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join("testdata", "report."+form)
		if *update {
			if err := os.WriteFile(name, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("error %v, or the report differs from %s (-update rewrites it):\n%s", err, name, &got)
		}
	}
}

func TestReportJSONDecodes(t *testing.T) {
	var b bytes.Buffer
	if err := writeJSON(&b, sample(t)); err != nil {
		t.Fatal(err)
	}
	var got jsonRun
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Targets) != 2 || len(got.Targets[1].Rounds) != 2 || got.Targets[1].Ratios["requests_per_second"] <= 0 || got.Targets[0].Ratios != nil {
		t.Errorf("the decoded report lacks a target, round or ratio: %+v", got)
	}
	if _, found := got.Targets[1].Figures["server_cpu_us_per_reply"]; found {
		t.Error("a figure that was not measured is reported")
	}
}

func TestReportCSVIsARectangle(t *testing.T) {
	var b bytes.Buffer
	if err := writeCSV(&b, sample(t)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll() // refuses rows of different lengths
	if err != nil || len(rows) != 1+4+2 || rows[6][1] != "all" {
		t.Errorf("error %v, rows %q; want a heading, 4 rounds and 2 totals", err, rows)
	}
}

// TestFigureTable checks that each figure is described and has a unique name.
func TestFigureTable(t *testing.T) {
	names := map[string]bool{}
	for f, info := range figureTable {
		if info.name == "" || info.label == "" || info.merge == nil || names[info.name] || len(info.label) > labelWidth {
			t.Errorf("figure %d lacks a name, a label or a merge function, has the name of another figure, or has a label that is too long: %+v", f, info)
		}
		names[info.name] = true
	}
}

type fullDisk struct{}

var errFull = errors.New("disk full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestReportErrors(t *testing.T) {
	for form, write := range reports {
		if err := write(fullDisk{}, sample(t)); !errors.Is(err, errFull) {
			t.Errorf("%s on a full disk: error %v; want errFull", form, err)
		}
	}
}

func TestGrouped(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.4: "1,234,567", -1234: "-1,234", -0.4: "0"} {
		if got := grouped(v); got != want {
			t.Errorf("%v is written %q; want %q", v, got, want)
		}
	}
}

func TestPlot(t *testing.T) {
	dir := t.TempDir()
	svg, image := filepath.Join(dir, "p.svg"), filepath.Join(dir, "p.PNG")
	for _, name := range []string{svg, image} {
		if err := writePlot(name, sample(t)); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	var root struct{ XMLName xml.Name }
	if err := xml.Unmarshal(content, &root); err != nil || root.XMLName.Local != "svg" {
		t.Errorf("the root element of the SVG is %v, error %v; want svg", root.XMLName, err)
	}
	for _, want := range []string{"a:1", "b:2", "99.9 %", "percentile"} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the SVG does not contain %q", want)
		}
	}
	f, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if i, err := png.Decode(f); err != nil || i.Bounds().Dx() < 500 {
		t.Errorf("the PNG is invalid, or narrower than 500 pixels; error %v", err)
	}
}

// TestPlotOfLittle checks plots of runs with few or no latencies.
func TestPlotOfLittle(t *testing.T) {
	f := func(latencies ...int64) {
		t.Helper()
		r := sample(t)
		for _, total := range r.totals {
			total.latency = newHistogram()
			for _, l := range latencies {
				record(total.latency, l, 1)
			}
		}
		if err := writePlot(filepath.Join(t.TempDir(), "p.svg"), r); err != nil {
			t.Errorf("plot of %v: %v", latencies, err)
		}
	}
	f()
	f(1)
	f(1000, 1000)
	f(int64(longest))
}

func TestPlotErrors(t *testing.T) {
	if err := writePlot(filepath.Join(t.TempDir(), "missing", "p.svg"), sample(t)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a plot in a missing directory: error %v; want os.ErrNotExist", err)
	}
}

// TestCurve checks that a curve does not fall, and ends at the last latency.
func TestCurve(t *testing.T) {
	points := curve(sample(t).totals[0].latency)
	if len(points) != 34 || points[0].X != 1 || points[0].Y != 20 {
		t.Fatalf("%d points, the first one %v; want 34, from x = 1, y = 20", len(points), points[0])
	}
	for i, p := range points[1:] {
		if p.X <= points[i].X || p.Y < points[i].Y {
			t.Errorf("point %v follows %v; want a greater x, and no smaller y", p, points[i])
		}
	}
}
