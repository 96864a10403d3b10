// Package low imports a package above it, which does not compile.
package low

import "example.com/tree/high"

// Walk says who walks.
func Walk() { high.Run() }

// Options has more fields than it should have.
type Options struct {
	A, B, C, D, E, F, G, H int
	I, J, K, L, M, N, O, P int
}
