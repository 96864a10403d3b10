package server

import (
	"strings"
)

// argument describes one argument of a command, as COMMAND DOCS shows it.
type argument struct {
	name     string
	kind     string // "key", "string", "integer", "pattern", "pure-token", "oneof", "block"
	token    string // the word that precedes it, or that it consists of
	optional bool
	multiple bool
	parts    []argument // of a oneof or a block
}

// parseSyntax reads the notation in which the command table describes arguments:
//
//	name           a string; "key" and "pattern" are of that kind
//	name:kind      an argument of another kind
//	WORD           the word itself
//	WORD name      an argument that follows a word
//	[ ... ]        what may be left out; a block if there are several
//	{ ... }        what belongs together
//	a|b            one of several words
//	[ a | b c ]    one of several, each of any length; likewise within braces
//	...            right behind: may be repeated
func parseSyntax(s string) []argument {
	p := syntaxParser{words: strings.Fields(strings.NewReplacer("[", " [ ", "]", " ] ", "{", " { ", "}", " } ").Replace(s))}
	return p.list()
}

type syntaxParser struct{ words []string }

func (p *syntaxParser) take() string {
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

// list reads up to the end, to the bracket that closes it, or to an alternative.
func (p *syntaxParser) list() []argument {
	var list []argument
	for len(p.words) > 0 && !strings.Contains("]}|", p.words[0]) {
		list = append(list, p.one())
	}
	return list
}

func (p *syntaxParser) one() argument {
	w := p.take()
	switch {
	case w == "[":
		a := p.group("mode")
		a.optional = true
		return a
	case w == "{":
		return p.group("limit")
	case strings.Contains(w, "|"):
		return oneOf(w)
	case isWord(w) && len(p.words) > 0 && !isWord(p.words[0]) && !strings.ContainsAny(p.words[0], "[]{}|"):
		a := plain(p.take())
		a.token = w
		return a
	}
	return plain(w)
}

// group reads up to the bracket that closes it. Alternatives are given a name.
func (p *syntaxParser) group(name string) argument {
	a := argument{name: name, kind: "oneof"}
	for closed := false; !closed; closed = p.take() != "|" {
		a.parts = append(a.parts, together(p.list()))
	}
	if len(a.parts) == 1 {
		a = a.parts[0]
	}
	if len(p.words) > 0 && p.words[0] == "..." {
		p.take()
		a.multiple = true
	}
	return a
}

// together makes one argument of several, named after the word that it begins with.
func together(list []argument) argument {
	if len(list) == 1 {
		return list[0]
	}
	a := argument{name: "options", kind: "block", parts: list}
	if list[0].token != "" {
		a.name = strings.ToLower(list[0].token)
	}
	return a
}

func oneOf(w string) argument {
	a := argument{name: "mode", kind: "oneof"}
	for _, part := range strings.Split(w, "|") {
		a.parts = append(a.parts, plain(part))
	}
	return a
}

// plain describes a word that stands for itself or for an argument.
func plain(w string) argument {
	w, repeated := strings.CutSuffix(w, "...")
	name, kind, given := strings.Cut(w, ":")
	a := argument{name: name, kind: kind, multiple: repeated}
	switch {
	case given:
	case name == "key" || name == "pattern":
		a.kind = name
	case isWord(name):
		a = argument{name: strings.ToLower(name), kind: "pure-token", token: name, multiple: repeated}
	default:
		a.kind = "string"
	}
	return a
}

func isWord(w string) bool { return w == strings.ToUpper(w) && w != strings.ToLower(w) }

// String returns an argument in the form that HELP shows.
func (a argument) String() string {
	var s string
	switch a.kind {
	case "pure-token":
		s = a.token
	case "oneof":
		s = joinArguments(a.parts, "|")
	case "block":
		s = joinArguments(a.parts, " ")
	default:
		s = "<" + a.name + ">"
		if a.token != "" {
			s = a.token + " " + s
		}
	}
	switch {
	case a.optional && a.multiple:
		return "[" + s + " ...]"
	case a.multiple:
		return s + " [" + s + " ...]"
	case a.optional:
		return "[" + s + "]"
	}
	return s
}

func joinArguments(list []argument, separator string) string {
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = a.String()
	}
	return strings.Join(texts, separator)
}
