package main

import (
	"go/ast"
	"regexp"
)

// phrase is a group of words that are counted in comments, capitalized or not.
type phrase struct {
	title string
	words *regexp.Regexp
}

// phrases are words that are typical of sentences without a concrete subject or verb.
// "Whose" is not included.
var phrases = []phrase{
	{"what ... clauses", regexp.MustCompile(`(?i)\bwhat(ever)?\b`)},
	{"who/whoever/nobody", regexp.MustCompile(`(?i)\b(who|whom|who(m?)ever|nobody)\b`)},
	{"say/tell", regexp.MustCompile(`(?i)\b(say|says|said|saying|tell|tells|told|telling)\b`)},
}

// directive matches a comment for a tool, such as //go:build.
var directive = regexp.MustCompile(`^//[a-z0-9]+:[a-z0-9]`)

// comments returns the comments of f, without directives.
func (f *file) comments() (all []*ast.Comment) {
	for _, group := range f.syntax.Comments {
		for _, comment := range group.List {
			if !directive.MatchString(comment.Text) {
				all = append(all, comment)
			}
		}
	}
	return all
}
