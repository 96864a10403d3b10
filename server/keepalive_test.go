package server

import (
	"syscall"
	"testing"

	"github.com/throttledhq/throttled/options"
)

// TestKeepAliveFollowsOption checks that new connections use the interval of the option
// tcp-keepalive.
func TestKeepAliveFollowsOption(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options.Options) { o.TCPKeepAlive = 0 })
	f := func(enabled, seconds int) {
		t.Helper()
		s.greet()
		list := s.sortedClients()
		list[len(list)-1].conn.socket.control(func(fd int) {
			on, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
			if err != nil || (on != 0) != (enabled != 0) {
				t.Errorf("SO_KEEPALIVE is %d (error %v), want %d", on, err, enabled)
			}
			if enabled == 0 {
				return
			}
			idle, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, tcpKeepIdle)
			if err != nil || idle != seconds {
				t.Errorf("TCP_KEEPIDLE is %d (error %v), want %d", idle, err, seconds)
			}
		})
	}
	f(0, 0)
	s.greet().do("+OK\r\n", "CONFIG", "SET", "tcp-keepalive", "17")
	f(1, 17)
}
