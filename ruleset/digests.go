package ruleset

import (
	"bytes"
	"encoding/hex"
)

// Sizes of digests, in bytes.
const (
	digestSize = 16
	maxDigests = (1 << 16) * digestSize
)

// digests is the beginnings of the hashes of texts that are no longer in the history, without separators, the oldest first.
// A file with such a text must not become a version again: it is older than 1,000 other versions.
type digests []byte

// add returns the digests with those of some versions, within the bound. The bytes of d do not change.
func (d digests) add(list history) digests {
	for i := range list {
		d = append(d, digestOf(list[i].Hash)...)
	}
	return d[max(0, len(d)-maxDigests):]
}

// has reports whether the digests include that of a hash.
func (d digests) has(hash string) bool {
	want := digestOf(hash)
	for i := 0; i+digestSize <= len(d); i += digestSize {
		if bytes.Equal(d[i:i+digestSize], want) {
			return true
		}
	}
	return false
}

// digestOf returns the first bytes of a hash. A hash that is not hexadecimal has the digest 0.
func digestOf(hash string) []byte {
	d := make([]byte, digestSize)
	if len(hash) < 2*digestSize {
		return d
	}
	if _, err := hex.Decode(d, []byte(hash[:2*digestSize])); err != nil {
		return make([]byte, digestSize)
	}
	return d
}
