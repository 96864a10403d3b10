package main

import (
	"fmt"
	"strings"
	"testing"
)

// steps are six statements with 60 tokens in total. They contain two variables, a function and a
// literal.
const steps = `
	%[1]s = %[3]s(%[2]s, %[4]s) + %[1]s
	%[2]s = %[3]s(%[1]s, %[4]s) + %[2]s
	%[1]s = %[3]s(%[2]s, %[4]s) + %[1]s
	%[2]s = %[3]s(%[1]s, %[4]s) + %[2]s
	%[1]s = %[3]s(%[2]s, %[4]s) + %[1]s // a comment
	%[2]s = %[3]s(%[1]s, %[4]s) + %[2]s
`

// body returns steps with the given names and the given literal.
func body(x, y, function, literal string) string { return fmt.Sprintf(steps, x, y, function, literal) }

func TestDuplicates(t *testing.T) {
	original := body("a", "b", "sum", "1")
	tests := []struct {
		name   string
		bodies []string
		want   []string
	}{
		{"equal", []string{original, original}, []string{"cmd/p.f0, cmd/p.f1: 60 tokens"}},
		{"comments and line breaks", []string{original, strings.ReplaceAll(strings.ReplaceAll(original, "comment", "remark"), ", ", ",\n\n")}, []string{"cmd/p.f0, cmd/p.f1: 60 tokens"}},
		{"other variables and literals", []string{original, body("b", "c", "sum", "22")}, []string{"cmd/p.f0, cmd/p.f1: 60 tokens"}},
		{"other function", []string{original, body("a", "b", "product", "1")}, nil},
		{"other kind of literal", []string{original, body("a", "b", "sum", `"1"`)}, nil},
		{"one variable for two", []string{original, body("a", "a", "sum", "1")}, nil},
		{"two variables exchanged", []string{original, strings.TrimSuffix(original, "b = sum(a, 1) + b\n") + "a = sum(b, 1) + a\n"}, nil},
		{"other field", []string{body("s.a", "b", "sum", "1"), body("s.c", "b", "sum", "1")}, nil},
		{"less than 60 tokens", []string{strings.Replace(original, "+ a", "", 1), strings.Replace(original, "+ a", "", 1)}, nil},
		{"part of other statements", []string{"a++\n" + original + "a--\n", "b()\n" + original + "return\n"}, []string{"cmd/p.f0, cmd/p.f1: 60 tokens"}},
		{"extended while equal", []string{"a++\n" + original + "a--\nreturn\n", "a++\n" + original + "a--\nb++\n"}, []string{"cmd/p.f0, cmd/p.f1: 64 tokens"}},
		{"three", []string{original, original, original}, []string{"cmd/p.f0, cmd/p.f1: 60 tokens", "cmd/p.f1, cmd/p.f2: 60 tokens"}},
		{"the outermost", []string{"for a > 1 {" + original + "}\n", "for a > 1 {" + original + "}\n"}, []string{"cmd/p.f0, cmd/p.f1: 66 tokens"}},
		{"in a case", []string{"switch {\ncase true:" + original + "}\n", "select {\ndefault:" + original + "}\n"}, []string{"cmd/p.f0, cmd/p.f1: 60 tokens"}},
		{"in one function", []string{original + original}, []string{"cmd/p.f0, cmd/p.f0: 60 tokens"}},
		{"three in one function", []string{original + original + original}, []string{"cmd/p.f0, cmd/p.f0: 60 tokens", "cmd/p.f0, cmd/p.f0 (2): 60 tokens"}},
		{"overlap", []string{original + strings.TrimSuffix(original, "\tb = sum(a, 1) + b\n")}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source := "package main\n"
			for i, body := range tt.bodies {
				source += fmt.Sprintf("func f%d() {\n%s}\n", i, body)
			}
			production, tests := find(t, duplicates, map[string]string{"cmd/p/main.go": source})
			check(t, "production", production, tt.want...)
			check(t, "tests", tests)
		})
	}
}

// TestDuplicateOfTests checks that a duplicate in a test file and in production code counts as a
// duplicate of tests, regardless of the file in which the first run is.
func TestDuplicateOfTests(t *testing.T) {
	original := body("a", "b", "sum", "1")
	for _, tt := range []struct{ test, want string }{
		{"a/a_test.go", "a/a_test.go:4-9, cmd/p/main.go:4-9"},
		{"low/a_test.go", "cmd/p/main.go:4-9, low/a_test.go:4-9"},
	} {
		loaded, err := load(writeTree(t, map[string]string{
			"cmd/p/main.go": "package main\n\nfunc f() {" + original + "}\n",
			tt.test:         "package p\n\nvar f = func() {" + original + "}\n",
		}))
		if err != nil {
			t.Fatal(err)
		}
		all := duplicates(loaded)
		if len(all) != 1 || !all[0].test || all[0].at != tt.want {
			t.Errorf("got %+v, want one duplicate of tests at %s", all, tt.want)
		}
	}
}
