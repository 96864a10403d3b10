package options

import "strings"

// nearest returns the option with the smallest edit distance to name, ignoring case. It
// returns "" if that distance is more than 1 + len(name)/3, or if name is longer than 64 bytes.
func nearest(name string) string {
	name = strings.ToLower(name)
	best, closest := 1+len(name)/3, ""
	if len(name) > 64 {
		return "" // longer than any option; the time of distance is proportional to the product of the two lengths
	}
	for i := range table {
		if d := distance(name, table[i].name); d <= best && (closest == "" || d < best) {
			best, closest = d, table[i].name
		}
	}
	return closest
}

// distance returns the Levenshtein distance of a and b in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // row[j] is the distance of the processed prefix of a to b[:j]
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
