package transport

import (
	"syscall"
	"testing"
)

// probed checks that the system probes the peer of a socket after 15 s of silence.
func probed(t *testing.T, fd int) {
	t.Helper()
	for _, o := range []struct {
		level, option int
		want          int
	}{
		{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 5},
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 3},
		{syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1},
	} {
		if got, err := syscall.GetsockoptInt(fd, o.level, o.option); err != nil || got != o.want {
			t.Errorf("socket option %d of level %d is %d, error %v; want %d", o.option, o.level, got, err, o.want)
		}
	}
}
