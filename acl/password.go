package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"strings"
)

// digest is the SHA-256 digest of a password.
type digest [sha256.Size]byte

func digestOf(password string) digest { return sha256.Sum256([]byte(password)) }

// parseDigest parses a digest in lower-case hexadecimal digits.
func parseDigest(text string) (d digest, err error) {
	if len(text) != hex.EncodedLen(len(d)) || strings.ToLower(text) != text {
		return d, ErrDigest
	}
	if _, err := hex.Decode(d[:], []byte(text)); err != nil {
		return d, ErrDigest
	}
	return d, nil
}

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// credentials determine whether a user can log in.
type credentials struct {
	enabled bool
	noPass  bool // any password is right
	digests []digest
}

// add returns a copy with one more password.
func (c credentials) add(d digest) credentials {
	c.noPass = false
	if !slices.Contains(c.digests, d) {
		c.digests = append(slices.Clone(c.digests), d)
	}
	return c
}

// remove returns a copy without a password.
func (c credentials) remove(d digest) (credentials, error) {
	i := slices.Index(c.digests, d)
	if i < 0 {
		return c, ErrNoSuchPassword
	}
	c.digests = slices.Delete(slices.Clone(c.digests), i, i+1)
	return c, nil
}

// accept returns 1 if a password with the digest given is right, and otherwise 0. It makes n comparisons, of which n
// must be at least the number of passwords, so that the duration does not depend on the user.
func (c *credentials) accept(given digest, n int) int {
	var none digest // no password is known that has this digest
	right := 0
	for i := range n {
		stored, counts := &none, 0
		if i < len(c.digests) {
			stored, counts = &c.digests[i], 1
		}
		right |= subtle.ConstantTimeCompare(stored[:], given[:]) & counts
	}
	return (right | bit(c.noPass)) & bit(c.enabled)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// words returns the words that produce c.
func (c *credentials) words() []string {
	words := []string{[...]string{"off", "on"}[bit(c.enabled)]}
	if c.noPass {
		words = append(words, "nopass")
	}
	for _, d := range c.digests {
		words = append(words, "#"+d.String())
	}
	return words
}
