package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// print writes the figures next to the committed figures: first the totals, then each
// finding.
func (s shapes) print(w io.Writer, committed Figures) error {
	var b strings.Builder
	printTotals(&b, s.figures(), committed)
	for _, m := range measures {
		printFindings(&b, m.title+", production code", s.production.findings[m.title], committed.Production.Findings[m.title])
		printFindings(&b, m.title+", tests", s.tests.findings[m.title], committed.Tests.Findings[m.title])
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.DiscardEmptyColumns)
	if _, err := io.WriteString(table, b.String()); err != nil {
		return err
	}
	return table.Flush()
}

// printTotals appends a table of all totals.
func printTotals(b *strings.Builder, current, committed Figures) {
	b.WriteString("\tproduction\tcommitted\ttests\tcommitted\n")
	titles := []string{sizeFiles, sizeLines, sizeComments}
	for _, m := range measures {
		titles = append(titles, m.title)
	}
	for _, p := range phrases {
		titles = append(titles, p.title)
	}
	for _, title := range titles {
		fmt.Fprintf(b, "%s\t%s\t%s\t%s\t%s\n", title,
			current.Production.total(title), committed.Production.total(title),
			current.Tests.total(title), committed.Tests.total(title))
	}
	fmt.Fprintf(b, "(words: per 1,000 %s)\n", sizeComments)
}

// total returns the figure of a title as text: "-" if there is none.
func (p Part) total(title string) string {
	if n, is := p.Sizes[title]; is {
		return strconv.Itoa(n)
	}
	if n, is := p.Words[title]; is {
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	if all, is := p.Findings[title]; is {
		return strconv.Itoa(len(all))
	}
	return "-"
}

// printFindings appends the findings of one measure, and the committed findings that no
// longer exist. It appends nothing if there are neither.
func printFindings(b *strings.Builder, title string, current []finding, committed map[string]string) {
	gone := maps.Clone(committed)
	for _, f := range current {
		delete(gone, f.name)
	}
	if len(current)+len(gone) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, f := range current {
		printRow(b, f.name, f.size, f.change(committed), f.at)
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		printRow(b, name, gone[name], "gone", "")
	}
}

// change describes how f differs from its committed size. If there are no committed
// figures, no finding is new.
func (f finding) change(committed map[string]string) string {
	size, known := committed[f.name]
	switch {
	case committed == nil || known && size == f.size:
		return ""
	case known:
		return "was " + size
	}
	return "new"
}

// printRow appends an indented row without trailing empty cells. Columns that are empty in
// all rows are left out.
func printRow(b *strings.Builder, cells ...string) {
	b.WriteString("  " + strings.TrimRight(strings.Join(cells, "\v"), "\v") + "\n")
}
