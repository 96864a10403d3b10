//go:build !race

package race

// Factor is 1 without the race detector: tests do all of their work.
const Factor = 1
