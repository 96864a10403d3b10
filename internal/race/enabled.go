//go:build race

package race

// Factor is the part of the work that a test of one goroutine leaves out: it does 1 in Factor.
const Factor = 8
