// Command shape prints the shape of the code beside its last committed figures: long functions and files, large types,
// undocumented exports, imports that point up, duplicated statements, and the frequency of some words in comments.
//
// Each figure is printed for production code and for tests. Production code is each package that a program in cmd/
// imports, directly or not, without its _test.go files. All other code counts as tests. Generated code, testdata and
// directories whose names begin with a dot or an underscore are left out.
//
// Totals come first. Below them each finding has a row: its name, its size, "new" or its committed size if that differs,
// and its place. A finding that was committed and does not exist any more is marked "gone".
//
// The figures are a report, not a gate: shape exits with 0 however they change, and with 1 if it cannot read the code
// or the committed figures.
package main
