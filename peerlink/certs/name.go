package certs

import (
	"errors"
	"fmt"
)

// ErrName is wrapped when a name cannot be that of a cluster or a node.
var ErrName = errors.New("not a name of at most 40 letters, digits and inner hyphens")

// MaxName is the length of the longest name of a cluster or a node, in bytes.
const MaxName = 40

// zone ends the names in certificates, so that no certificate that was made for a host
// is taken for that of a node.
const zone = "throttled"

// Name returns the DNS name that stands in the certificate of a node. Since neither
// part can have a dot, no two nodes have the same.
func Name(node, cluster string) string { return node + "." + cluster + "." + zone }

// CheckName returns nil if s can be the name of a cluster or a node, else an error that
// wraps ErrName. Letters of upper and lower case differ.
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
