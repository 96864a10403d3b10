//go:build !amd64 && !arm64

package buckets

// Where there are no instructions for it, nothing is asked for in advance.

func prefetch(uintptr) {}

func prefetchToWrite(uintptr) {}
