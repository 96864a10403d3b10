//go:build amd64 || arm64

package buckets

// prefetch loads the cache line at an address without waiting for it. Any address is valid.
//
//go:noescape
func prefetch(addr uintptr)

// prefetchToWrite loads two consecutive cache lines for writing, the first one at an address. Any
// address is valid.
//
//go:noescape
func prefetchToWrite(addr uintptr)
