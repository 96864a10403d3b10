//go:build !amd64 && !arm64

package buckets

// prefetch does nothing where there is no instruction for it.
func prefetch(uintptr) {}
