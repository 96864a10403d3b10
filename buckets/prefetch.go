//go:build amd64 || arm64

package buckets

// prefetch loads the cache line at an address without waiting for it. Any address is valid.
//
//go:noescape
func prefetch(addr uintptr)

// prefetchToWrite loads the cache line at an address and the next one, for writing, without waiting for
// them. Any address is valid.
//
//go:noescape
func prefetchToWrite(addr uintptr)
