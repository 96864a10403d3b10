package certs

import (
	"errors"
	"fmt"
)

// ErrName is wrapped if a name is not a valid name of a cluster or a node.
var ErrName = errors.New("not a name of at most 40 letters, digits and inner hyphens")

// MaxName is the length of the longest name of a cluster or a node, in bytes.
const MaxName = 40

// zone is the last part of the names in certificates, so that a certificate of a host is never
// mistaken for that of a node.
const zone = "throttled"

// Name returns the DNS name in the certificate of a node. It is unique, since neither part
// contains a dot.
func Name(node, cluster string) string { return node + "." + cluster + "." + zone }

// CheckName returns nil if s is a valid name of a cluster or a node, otherwise an error that
// wraps ErrName. Names are case-sensitive.
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
