//go:build !chaos

package failpoint

// Is reports whether a bug is enabled: always false in this build.
func Is(Bug) bool { return false }
