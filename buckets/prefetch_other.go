//go:build !amd64 && !arm64

package buckets

// On other architectures prefetching has no effect.

func prefetch(uintptr) {}

func prefetchToWrite(uintptr) {}
