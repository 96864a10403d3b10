//go:build !linux

package peerlink

import "net"

// queuedIn returns 0: it cannot be told here what was acknowledged. A message that fits into the buffers
// of the system then has to be through and answered within one deadline.
func queuedIn(net.Conn) int64 { return 0 }
