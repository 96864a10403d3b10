// Package nearest finds the word that was probably meant by a misspelled one, for the errors of options and rules files.
package nearest

import "strings"

// maxWord is the length in bytes of the longest word that Word compares. The time of a comparison is proportional to the
// product of the lengths of the two words.
const maxWord = 64

// Word returns the choice with the smallest edit distance to word, ignoring the case of word. The choices are in lower
// case. Word returns "" if the smallest distance is more than 1 + len(word)/3, or if word is longer than 64 bytes.
func Word(word string, choices []string) string {
	best, least := "", len(word)/3+2
	if len(word) > maxWord {
		return ""
	}
	word = strings.ToLower(word)
	for _, choice := range choices {
		if d := distance(word, choice); d < least {
			best, least = choice, d
		}
	}
	return best
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
