//go:build !linux

package transport

import "net"

// queuedIn returns 0, because the number of unacknowledged bytes is unknown on this system. Bytes in
// the send buffer of the system therefore count as moved. A message that fits in the buffer must be
// transmitted and answered within one deadline.
func queuedIn(net.Conn) int64 { return 0 }
