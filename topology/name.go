package topology

import (
	"errors"
	"fmt"
)

// ErrName is the error for an invalid name of a cluster or a node. CheckName wraps it.
var ErrName = errors.New("invalid name: use 1 to 40 letters, digits and hyphens, with no hyphen at either end")

// MaxName is the length of the longest name of a cluster or a node, in bytes.
const MaxName = 40

// CheckName returns nil if s is a valid name of a cluster or a node, otherwise an error that wraps ErrName. Names are
// case-sensitive. A name contains no dot, since certificates contain the names of a node and its cluster, joined by
// dots.
func CheckName(s string) error {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		digit := '0' <= c && c <= '9'
		inside := i > 0 && i < len(s)-1
		if !letter && !digit && (c != '-' || !inside) {
			return fmt.Errorf("%.50q: %w", s, ErrName)
		}
	}
	if s == "" || len(s) > MaxName {
		return fmt.Errorf("%.50q: %w", s, ErrName)
	}
	return nil
}
