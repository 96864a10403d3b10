package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// Figures are the figures of a repository, as they are committed.
type Figures struct {
	Production Part `json:"production"`
	Tests      Part `json:"tests"`
}

// Part holds the figures of production code or of tests.
type Part struct {
	Sizes    map[string]int               `json:"sizes"`    // files, lines and lines with comments
	Words    map[string]float64           `json:"words"`    // by the title of a phrase: occurrences per 1,000 lines with comments
	Findings map[string]map[string]string `json:"findings"` // by the title of a measure and by name: the size, if any
}

// Keys of Part.Sizes.
const (
	sizeFiles    = "files"
	sizeLines    = "lines"
	sizeComments = "comment lines"
)

// finding is a place that a measure reports.
type finding struct {
	name string
	size string // with its unit; empty if there is nothing to count
	at   string // the place; empty if the name is the place. Each edit changes it, so it is not committed
	test bool
}

// measure finds one kind of code that should be rare.
type measure struct {
	title string
	find  func(*tree) []finding
}

// measures lists all measures, in the order in which they are printed.
var measures = []measure{
	{fmt.Sprintf("functions over %d lines", maxFunctionLines), longFunctions},
	{fmt.Sprintf("tables over %d lines", maxFunctionLines), longTables},
	{fmt.Sprintf("files over %d lines", maxFileLines), longFiles},
	{fmt.Sprintf("types over %d fields or %d methods", maxFields, maxMethods), largeTypes},
	{"undocumented exports", undocumentedExports},
	{"imports that point up", upwardImports},
	{fmt.Sprintf("duplicates of %d tokens", minTokens), duplicates},
}

// shape is the measured state of production code, or of tests.
type shape struct {
	sizes    map[string]int
	words    map[string]float64
	findings map[string][]finding // by the title of a measure, in the order of their names, which are unique
}

// shapes holds the shapes of a repository.
type shapes struct{ production, tests shape }

// measureTree measures a repository.
func measureTree(t *tree) shapes {
	found := map[string][]finding{}
	for _, m := range measures {
		found[m.title] = m.find(t)
	}
	return shapes{t.shape(found, false), t.shape(found, true)}
}

// shape returns the sizes, words and findings of tests if test is true, and otherwise of production code.
func (t *tree) shape(found map[string][]finding, test bool) shape {
	s := shape{sizes: map[string]int{}, words: map[string]float64{}, findings: map[string][]finding{}}
	occurrences := map[string]int{}
	for _, f := range t.files {
		if f.test == test {
			f.addSizes(s.sizes)
			f.addWords(occurrences)
		}
	}
	for _, p := range phrases {
		s.words[p.title] = rate(occurrences[p.title], s.sizes[sizeComments])
	}
	for title, all := range found {
		s.findings[title] = sorted(all, test)
	}
	return s
}

// addSizes adds the sizes of f.
func (f *file) addSizes(sizes map[string]int) {
	sizes[sizeFiles]++
	sizes[sizeLines] += f.tokens.LineCount()
	for _, comment := range f.comments() {
		sizes[sizeComments] += f.lines(comment)
	}
}

// addWords adds the number of occurrences of each phrase in the comments of f.
func (f *file) addWords(occurrences map[string]int) {
	for _, comment := range f.comments() {
		for _, p := range phrases {
			occurrences[p.title] += len(p.words.FindAllStringIndex(comment.Text, -1))
		}
	}
}

// rate returns n per 1,000 lines, to one decimal.
func rate(n, lines int) float64 {
	if lines == 0 {
		return 0
	}
	return math.Round(10_000*float64(n)/float64(lines)) / 10
}

// sorted returns the findings in tests if test is true, and otherwise those in production code.
// They are in the order of their names. If a name occurs more than once, sorted appends " (2)" to
// the second occurrence, and so on.
func sorted(all []finding, test bool) (part []finding) {
	times := map[string]int{}
	for _, f := range all {
		if f.test != test {
			continue
		}
		times[f.name]++
		if n := times[f.name]; n > 1 {
			f.name = fmt.Sprintf("%s (%d)", f.name, n)
		}
		part = append(part, f)
	}
	slices.SortFunc(part, func(a, b finding) int { return strings.Compare(a.name, b.name) })
	return part
}

// figures returns the figures to commit.
func (s shapes) figures() Figures { return Figures{s.production.part(), s.tests.part()} }

// part returns the figures to commit of production code or of tests.
func (s shape) part() Part {
	p := Part{Sizes: s.sizes, Words: s.words, Findings: map[string]map[string]string{}}
	for title, all := range s.findings {
		p.Findings[title] = map[string]string{}
		for _, f := range all {
			p.Findings[title][f.name] = f.size
		}
	}
	return p
}

// readFigures reads committed figures. The error wraps fs.ErrNotExist if there are none.
func readFigures(path string) (Figures, error) {
	var f Figures
	text, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// write replaces the committed figures in the file at path.
func (f Figures) write(path string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
