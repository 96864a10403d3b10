//go:build !linux

package thread

// Yield does nothing.
func Yield() {}
