//go:build race

package race

// Factor is the divisor for the number of steps of a test of one goroutine.
const Factor = 8
