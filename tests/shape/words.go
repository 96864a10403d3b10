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

// phrases are the words that mark a sentence which has no concrete subject or verb. "Whose" is not among them.
var phrases = []phrase{
	{"what ... clauses", regexp.MustCompile(`(?i)\bwhat(ever)?\b`)},
	{"who/whoever/nobody", regexp.MustCompile(`(?i)\b(who|whom|who(m?)ever|nobody)\b`)},
	{"say/tell", regexp.MustCompile(`(?i)\b(say|says|said|saying|tell|tells|told|telling)\b`)},
}

// directive matches a comment for a tool, such as //go:build.
var directive = regexp.MustCompile(`^//[a-z0-9]+:[a-z0-9]`)

// comments returns the comments of f for readers.
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
