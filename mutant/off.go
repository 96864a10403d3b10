//go:build !chaos

package mutant

// Is reports whether a bug is switched on: never, in this build.
func Is(Bug) bool { return false }
