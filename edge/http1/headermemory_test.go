package http1

import (
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	floodConns  = 200
	heldBytes   = 128 << 10 // bar for a connection whose header is not complete
	afterBytes  = 16 << 10  // bar for each connection after it was refused
	memoryLimit = 64 << 10  // bytes of a header, as in package edge
)

// TestHeaderLines_Memory measures the memory of connections whose headers are not complete, close to the limits of bytes and of
// lines, and checks that it is released after further bytes have exceeded both limits.
func TestHeaderLines_Memory(t *testing.T) {
	for name, header := range map[string]string{
		"short lines": strings.Repeat("a:b\r\n", maxHeaderLines-1),
		"long lines":  strings.Repeat("a:"+strings.Repeat("b", memoryLimit/maxHeaderLines-10)+"\r\n", maxHeaderLines-1),
		"one line":    "a:" + strings.Repeat("b", memoryLimit-100),
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			before := liveBytes()
			conns := make([]net.Conn, floodConns)
			for i := range conns {
				conns[i] = sendHeader(t, l.addr, header)
			}
			held := settled(func(now, last int) bool { return now-before > floodConns*len(header) && now-last < now/100 })
			for _, c := range conns {
				_, _ = io.WriteString(c, strings.Repeat("c:d\r\n", 2)+strings.Repeat("e", memoryLimit)) // fails if the server has closed the connection
				_, _ = io.Copy(io.Discard, c)
			}
			after := settled(func(now, _ int) bool { return now-before <= floodConns*afterBytes })
			t.Logf("%d bytes for a connection, %d afterwards", (held-before)/floodConns, (after-before)/floodConns)
			if held-before > floodConns*heldBytes || after-before > floodConns*afterBytes {
				t.Errorf("more than %d bytes for a connection, or %d afterwards", heldBytes, afterBytes)
			}
		})
	}
}

// sendHeader opens a connection, and sends the beginning of a request that is handed over.
func sendHeader(t *testing.T, addr, header string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, "OPTIONS / HTTP/1.1\r\nHost: a\r\n"+header); err != nil {
		t.Fatal(err)
	}
	return c
}

// settled returns the size of the heap as soon as a condition of it and of the previous size is true, or after half a minute.
func settled(enough func(now, last int) bool) (now int) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	now = liveBytes()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-ticker.C {
		last := now
		if now = liveBytes(); enough(now, last) {
			break
		}
	}
	return now
}

// liveBytes returns the size of the heap after a garbage collection.
func liveBytes() int {
	runtime.GC()
	runtime.GC() // the second collection frees the objects in sync.Pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
