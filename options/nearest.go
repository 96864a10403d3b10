package options

import "strings"

// nearest returns the option whose name is most like the given one, or "" if none is
// like it: more than every third byte would have to change.
func nearest(name string) string {
	name = strings.ToLower(name)
	best, closest := 1+len(name)/3, ""
	if len(name) > 64 {
		return "" // longer than any option, and the distance costs a product of lengths
	}
	for i := range table {
		if d := distance(name, table[i].name); d <= best && (closest == "" || d < best) {
			best, closest = d, table[i].name
		}
	}
	return closest
}

// distance counts the bytes to insert, delete or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // row[j] is the distance of what a has shown so far to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
