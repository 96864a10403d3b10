package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxErrors is the number of errors that Parse returns at most.
const maxErrors = 20

// Error is a problem at one place of a rules file.
type Error struct {
	File       string // the name passed to Parse
	Line       int    // from 1
	Column     int    // in characters, from 1
	Path       string // keys that lead to the place, such as limits.login.allow; empty for a whole document
	Reason     string // the problem, usually with the wrong text in quotes
	Suggestion string // the remedy; empty if Reason implies it
}

// Error returns the error on one line, in the format that editors recognize: FILE:LINE:COLUMN: PATH: REASON.
func (e Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Reason)
	if e.Suggestion != "" {
		b.WriteString("; " + e.Suggestion)
	}
	return b.String()
}

// Errors is a list of at least one and at most 20 errors, in the order of their places.
type Errors []Error

// Error returns the errors on one line each.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the first errors of the file, in the order of their places.
func (es Errors) sorted() Errors {
	slices.SortStableFunc(es, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return es[:min(len(es), maxErrors)]
}
