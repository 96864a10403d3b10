// Package freeport finds ports for servers that a test starts as separate processes.
//
// Only tests import it.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// The ports are below the ephemeral ports of operating systems. A listener or connection with an ephemeral
// port can therefore not take the port of a server before the server listens, or while the server restarts.
//
// The ports are divided into blocks. A process owns a block while it listens on the first port of the block,
// so that tests of other packages, which run concurrently, get other ports.
const (
	first  = 13_000
	size   = 200 // ports of a block, many more than a test uses
	blocks = 45
)

// block is the block of this process.
var block struct {
	sync.Mutex
	owner net.Listener // listens on the first port of the block; nil if the process owns no block yet
	base  int          // the first port of the block
	used  int          // the port returned last, as an offset from base
}

// Of returns a free port of the loopback address that was not recently returned to this or
// another process. It fails the test if there is none.
func Of(t testing.TB) int {
	t.Helper()
	block.Lock()
	defer block.Unlock()
	if block.owner == nil && !acquire() {
		t.Fatalf("no block of ports from %d on is free on 127.0.0.1", first)
	}
	for range size - 1 {
		block.used = block.used%(size-1) + 1
		if ln := listen(block.base + block.used); ln != nil {
			_ = ln.Close() // nothing has connected
			return block.base + block.used
		}
	}
	t.Fatalf("no port from %d to %d of 127.0.0.1 is free", block.base, block.base+size-1)
	return 0
}

// acquire acquires a block for the process, and reports whether one was free. block must be locked.
func acquire() bool {
	for _, i := range rand.Perm(blocks) { // #nosec G404 -- not a secret
		if ln := listen(first + i*size); ln != nil {
			block.owner, block.base = ln, first+i*size
			return true
		}
	}
	return false
}

// listen returns a listener on port, or nil if the port is in use.
func listen(port int) net.Listener {
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil
	}
	return ln
}
