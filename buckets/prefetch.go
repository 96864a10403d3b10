//go:build amd64 || arm64

package buckets

// prefetch asks for the memory at an address without waiting for it. Any address will do.
//
//go:noescape
func prefetch(addr uintptr)

// prefetchToWrite asks for the two cache lines at an address, to be written. Any address will
// do.
//
//go:noescape
func prefetchToWrite(addr uintptr)
