package ruleset

import "slices"

// Bounds of the history. The newest version always has its text.
const (
	maxVersions = 1000
	maxTexts    = 16
	maxPacked   = 64 << 20 // bytes of all compressed texts
)

// record is a version with its compressed text.
type record struct {
	Version
	packed []byte // nil if the text is no longer stored
}

// history is a list of versions, the oldest first.
type history []record

// newest returns the newest version, or a zero record.
func (h history) newest() record {
	if len(h) == 0 {
		return record{}
	}
	return h[len(h)-1]
}

// add returns the history with one more version, within the bounds. It does not change h.
func (h history) add(r record) history {
	if excess := len(h) + 1 - maxVersions; excess > 0 {
		h = h[excess:]
	}
	next := append(slices.Clone(h), r)
	next.dropTexts()
	return next
}

// dropTexts removes the oldest texts until the rest is within the bounds.
func (h history) dropTexts() {
	texts, total := 0, 0
	for i := len(h) - 1; i >= 0; i-- {
		texts, total = texts+1, total+len(h[i].packed)
		if i < len(h)-1 && (texts > maxTexts || total > maxPacked) {
			h[i].packed = nil
		}
	}
}

// find returns the version with a number, or nil.
func (h history) find(number uint64) *record {
	i := slices.IndexFunc(h, func(r record) bool { return r.Number == number })
	if i < 0 {
		return nil
	}
	return &h[i]
}

// withHash returns the newest version with a hash, or nil.
func (h history) withHash(hash string) *record {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].Hash == hash {
			return &h[i]
		}
	}
	return nil
}
