package main

import (
	"cmp"
	"go/scanner"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// lexeme is a token of a file with its text.
type lexeme struct {
	pos         token.Pos
	text        string
	isRenamable bool // the token is a name, but not the name of a function, a method or a field
}

// scan returns the lexemes of f without comments. It also omits semicolons, since the scanner inserts them at line
// breaks. Each literal is replaced by its kind. A list of literals of one kind is replaced by one literal.
func scan(f *file) (lexemes []lexeme) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(f.path, f.tokens.Base(), len(f.source)), f.source, nil, 0)
	for {
		pos, kind, text := s.Scan()
		switch {
		case kind == token.EOF:
			return lexemes
		case kind != token.SEMICOLON:
			lexemes = appendToken(lexemes, pos, kind, text)
		}
	}
}

// appendToken appends a token to the lexemes that precede it.
func appendToken(lexemes []lexeme, pos token.Pos, kind token.Token, text string) []lexeme {
	n := len(lexemes)
	isSelected := n > 0 && lexemes[n-1].text == "."
	switch {
	case kind == token.IDENT:
		return append(lexemes, lexeme{pos, text, !isSelected})
	case kind == token.LPAREN && n > 0:
		lexemes[n-1].isRenamable = false // the name of a function
	case kind.IsLiteral() && n > 1 && lexemes[n-1].text == "," && lexemes[n-2].text == kind.String():
		return lexemes[:n-1]
	}
	return append(lexemes, lexeme{pos, kind.String(), false})
}

// index returns the index of the first lexeme at or after pos.
func index(lexemes []lexeme, pos token.Pos) int {
	i, _ := slices.BinarySearchFunc(lexemes, pos, func(w lexeme, pos token.Pos) int { return cmp.Compare(w.pos, pos) })
	return i
}

// form returns the text of the lexemes. Each renamable name is replaced by its number, in
// the order of first occurrence.
func form(lexemes []lexeme) string {
	var b strings.Builder
	numbers := map[string]int{}
	for _, w := range lexemes {
		text := w.text
		if w.isRenamable {
			if numbers[text] == 0 {
				numbers[text] = len(numbers) + 1
			}
			text = strconv.Itoa(numbers[text])
		}
		b.WriteString(text)
		b.WriteByte(' ')
	}
	return b.String()
}
