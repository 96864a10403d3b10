//go:build race

package race

// Factor divides the number of steps of tests with a single goroutine.
const Factor = 8
