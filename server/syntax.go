package server

import (
	"strings"
)

// argument describes one argument of a command in COMMAND DOCS.
type argument struct {
	name     string
	kind     string // "key", "string", "integer", "pattern", "pure-token", "oneof", "block"
	token    string // literal word before the argument, or the argument itself if it is a literal word
	optional bool
	multiple bool
	parts    []argument // elements of a oneof or a block
}

// parseSyntax parses the notation of arguments in the command table:
//
//	name           an argument of kind "string"; an argument named key or pattern has the kind of that name
//	name:kind      an argument of the given kind
//	WORD           a literal word
//	WORD name      an argument that follows a literal word
//	[ ... ]        optional; a block if there are several arguments
//	{ ... }        a group
//	a|b            one of several words
//	[ a | b c ]    one of several alternatives, each with one or more arguments; also with braces
//	...            as a suffix: the argument may be repeated
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

// list parses arguments up to the end, a closing bracket, or a "|".
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

// group parses alternatives up to and including the closing bracket. Several alternatives become an argument of kind
// oneof with the given name.
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

// together combines several arguments into a block, which is named after the literal word of the first argument.
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

// plain parses a literal word or an argument.
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

// isWord reports whether w is a literal word: in upper case, or "--".
func isWord(w string) bool { return w == "--" || w == strings.ToUpper(w) && w != strings.ToLower(w) }

// String formats an argument as in HELP.
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
