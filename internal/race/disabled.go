//go:build !race

package race

// Factor is 1 without the race detector: tests run all of their steps.
const Factor = 1
