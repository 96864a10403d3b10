package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
)

// minTokens is the smallest number of tokens of a run of statements that is reported as a
// duplicate.
const minTokens = 60

// statement is a statement with its tokens.
type statement struct {
	lexemes  []lexeme
	pos, end token.Pos
}

// list is the list of statements of a block or a case.
type list struct {
	file       *file
	function   string // the function that contains the list
	statements []statement
}

// run is a sequence of consecutive statements of a list.
type run struct {
	*list
	from, to int // indexes of statements; to is exclusive
}

// pair is a run and a later equal run.
type pair struct {
	first, second run
	tokens        int
}

// duplicates finds equal runs of statements. Two runs are equal if they differ only in
// comments, line breaks, literals of the same kind, and names. Each name must correspond to
// exactly one name in the other run. Names of functions, methods and fields must be the same.
// Each run is paired with the next equal one, so that n equal runs are reported as n-1 pairs. Runs do not
// overlap, and no reported pair is within another.
func duplicates(t *tree) (found []finding) {
	for _, p := range outermost(pairs(lists(t))) {
		found = append(found, finding{
			name: p.first.function + ", " + p.second.function,
			size: count(p.tokens, "token"),
			at:   p.first.at() + ", " + p.second.at(),
			test: p.first.file.test || p.second.file.test,
		})
	}
	return found
}

// at returns the file and the lines of r.
func (r run) at() string {
	return fmt.Sprintf("%s-%d", r.file.at(r.pos()), r.file.line(r.end()))
}

func (r run) pos() token.Pos { return r.statements[r.from].pos }
func (r run) end() token.Pos { return r.statements[r.to-1].end }

// tokens returns the number of tokens in r.
func (r run) tokens() (sum int) {
	for _, s := range r.statements[r.from:r.to] {
		sum += len(s.lexemes)
	}
	return sum
}

// lists returns the lists of statements in a repository, outer lists before the lists that
// they contain.
func lists(t *tree) (all []*list) {
	for _, f := range t.files {
		lexemes := scan(f)
		for _, fn := range f.functions() {
			ast.Inspect(fn.body, func(n ast.Node) bool {
				if body := statements(n); len(body) > 0 {
					all = append(all, &list{f, fn.name, split(lexemes, body)})
				}
				return true
			})
		}
	}
	return all
}

// statements returns the list of statements that n directly holds, if any.
func statements(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	case *ast.CommClause:
		return n.Body
	}
	return nil
}

// split returns the statements with their lexemes.
func split(lexemes []lexeme, body []ast.Stmt) (all []statement) {
	for _, s := range body {
		from, to := index(lexemes, s.Pos()), index(lexemes, s.End())
		all = append(all, statement{lexemes[from:to], s.Pos(), s.End()})
	}
	return all
}

// pairs considers, for each statement, the shortest run that begins with the statement and has
// enough tokens. It pairs this run with the previous equal run, and extends both runs as far as
// they are equal.
func pairs(all []*list) (found []pair) {
	last := map[string]run{} // the last run of each form
	for _, l := range all {
		for from := range l.statements {
			r, enough := shortest(l, from)
			if !enough {
				break
			}
			key := r.form()
			previous, known := last[key]
			if known && previous.list == l && previous.to > from {
				continue // the runs overlap
			}
			last[key] = r
			if known {
				found = append(found, extend(previous, r))
			}
		}
	}
	return found
}

// shortest returns the shortest run that begins at statement from and has enough tokens.
func shortest(l *list, from int) (r run, enough bool) {
	sum := 0
	for i, s := range l.statements[from:] {
		if sum += len(s.lexemes); sum >= minTokens {
			return run{l, from, from + i + 1}, true
		}
	}
	return run{}, false
}

// form returns a text. The texts of two runs are equal if, and only if, the runs are equal.
func (r run) form() string {
	var lexemes []lexeme
	for _, s := range r.statements[r.from:r.to] {
		lexemes = append(lexemes, s.lexemes...)
	}
	return form(lexemes)
}

// extend extends two equal runs by the statements that follow them, while the runs stay
// equal and do not overlap.
func extend(a, b run) pair {
	for {
		longA, longB := a, b
		longA.to++
		longB.to++
		overlap := a.list == b.list && a.to == b.from
		if overlap || longA.to > len(a.statements) || longB.to > len(b.statements) || longA.form() != longB.form() {
			return pair{a, b, a.tokens()}
		}
		a, b = longA, longB
	}
}

// outermost returns the pairs that are not within others, in the order of their positions.
func outermost(all []pair) (kept []pair) {
	slices.SortStableFunc(all, func(a, b pair) int { return cmp.Compare(b.tokens, a.tokens) })
	for _, p := range all {
		if !slices.ContainsFunc(kept, p.isWithin) {
			kept = append(kept, p)
		}
	}
	slices.SortStableFunc(kept, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.first.pos(), b.first.pos()), cmp.Compare(a.second.pos(), b.second.pos()))
	})
	return kept
}

// isWithin reports whether the first run of p is a part of the first run of q, and the second run of
// p is a part of the second run of q.
func (p pair) isWithin(q pair) bool {
	return p.first.isWithin(q.first) && p.second.isWithin(q.second)
}

// isWithin reports whether r is a part of q. Positions are unique among all files.
func (r run) isWithin(q run) bool { return q.pos() <= r.pos() && r.end() <= q.end() }
