package envoy

import (
	"slices"
	"strings"
)

// textIndex finds the texts and patterns of a list that overlap with another. It selects them by their parts before the
// first star or after the last one, so that it need not compare each of them.
type textIndex struct {
	list         []string
	starts, ends partIndex
}

// add adds texts to the index.
func (x *textIndex) add(texts ...string) {
	for _, text := range texts {
		start, end := outerParts(text)
		x.starts.add(start, len(x.list))
		x.ends.add(reversed(end), len(x.list))
		x.list = append(x.list, text)
	}
}

// overlapping returns the texts that overlap with one of the patterns, in the order in which they were added. If there are
// no patterns, it returns all texts.
func (x *textIndex) overlapping(patterns ...string) []string {
	if len(patterns) == 0 {
		return slices.Clone(x.list)
	}
	var found []int
	for _, p := range patterns {
		for _, i := range x.near(p) {
			if overlap(x.list[i], p) {
				found = append(found, i)
			}
		}
	}
	slices.Sort(found)
	var texts []string
	for _, i := range slices.Compact(found) {
		texts = append(texts, x.list[i])
	}
	return texts
}

// near returns the indexes of all texts that can overlap with a pattern, and of some others.
func (x *textIndex) near(pattern string) []int {
	start, end := outerParts(pattern)
	byStart, n := x.starts.near(start)
	byEnd, m := x.ends.near(reversed(end))
	if n > m {
		byStart = byEnd
	}
	return slices.Concat(byStart...)
}

// match reports whether one of the patterns in the index matches a text, in which stars are ordinary characters.
func (x *textIndex) match(text string) bool { return matchesAny(x.overlapping(text), text) }

// partIndex finds the parts of which one begins with another.
type partIndex struct {
	byPart  map[string][]int // indexes of the parts with this text
	byStart map[string][]int // indexes of the parts that begin with this text
}

// maxPart is the length to which a part is shortened. Longer parts would make long texts expensive.
const maxPart = 32

// add adds a part with its index.
func (x *partIndex) add(part string, i int) {
	if x.byPart == nil {
		x.byPart, x.byStart = map[string][]int{}, map[string][]int{}
	}
	part = part[:min(len(part), maxPart)]
	x.byPart[part] = append(x.byPart[part], i)
	for n := range len(part) + 1 {
		x.byStart[part[:n]] = append(x.byStart[part[:n]], i)
	}
}

// near returns the indexes of the parts that begin with a part, or with which it begins, and their number.
func (x *partIndex) near(part string) (lists [][]int, total int) {
	part = part[:min(len(part), maxPart)]
	lists = append(lists, x.byStart[part])
	for n := range len(part) {
		lists = append(lists, x.byPart[part[:n]])
	}
	for _, list := range lists {
		total += len(list)
	}
	return lists, total
}

// outerParts returns the parts of a pattern before the first star, and after the last one. Both are the whole text if it
// has no star.
func outerParts(pattern string) (start, end string) {
	start, _, _ = strings.Cut(pattern, "*")
	return start, pattern[strings.LastIndexByte(pattern, '*')+1:]
}

// reversed returns the last bytes of a text, at most maxPart, in reverse order.
func reversed(text string) string {
	b := []byte(text[max(0, len(text)-maxPart):])
	slices.Reverse(b)
	return string(b)
}

// overlap reports whether a text exists that both patterns match. If both have stars, their outer parts decide: the parts
// between the stars can follow each other.
func overlap(a, b string) bool {
	switch {
	case !strings.Contains(a, "*"):
		return matchesAny([]string{b}, a)
	case !strings.Contains(b, "*"):
		return matchesAny([]string{a}, b)
	}
	startA, endA := outerParts(a)
	startB, endB := outerParts(b)
	return (strings.HasPrefix(startA, startB) || strings.HasPrefix(startB, startA)) &&
		(strings.HasSuffix(endA, endB) || strings.HasSuffix(endB, endA))
}
