//go:build !linux

package transport

import "net"

// queuedIn returns 0: the number of unacknowledged bytes is unknown on this system. A
// message that fits in the buffers of the system must therefore be transmitted and
// answered within one deadline.
func queuedIn(net.Conn) int64 { return 0 }
