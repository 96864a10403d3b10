// Package freeport finds ports for servers that a test starts as processes of their own.
//
// Only tests import it.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports are below those that systems give to listeners and connections that ask for any, so
// that none of these takes a port before the server listens, or while it starts again.
const first, last = 13_000, 22_000

// Of returns a port of the loopback address that nobody listens on. It fails the test if it
// finds none.
func Of(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := first + rand.IntN(last-first+1)
		if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = ln.Close() // nobody has connected
			return port
		}
	}
	t.Fatalf("no port from %d to %d of 127.0.0.1 is free", first, last)
	return 0
}
