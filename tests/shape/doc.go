// Command shape compares the shape of the code with its last committed figures: long
// functions and files, large types, undocumented exports, imports of packages on the same or a higher floor
// (floors_test.go), duplicated statements, and the frequency of some words in comments.
//
// Each figure is printed for production code and for tests. Production code consists of
// the packages that programs in cmd/ import, directly or indirectly, without _test.go
// files. All other code counts as tests. Generated code, testdata and directories whose
// names begin with a dot or an underscore are left out.
//
// Totals come first. After them, each finding has a row with its name, its size, its change and
// its place. The change is "new", or the committed size if it differs from the present size. A
// committed finding that no longer exists is marked "gone".
//
// The figures are only reported: shape exits with 0 regardless of their changes, and with
// 1 if it cannot read the code or the committed figures.
package main
