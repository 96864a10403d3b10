package server

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestSidecar_Refused checks that a sidecar connects once for a command if the upstream refuses connections, and decides immediately
// that the upstream has not run it.
func TestSidecar_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeSidecar{serves: func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 4096)) // the greeting of the stream
			_, _ = conn.Write([]byte("-ERR max number of clients reached\r\n"))
			_ = conn.Close()
		}}
		f.use("up")
		p := f.serve(t, newPipes(), nil, policyPatience+100*time.Millisecond).dial()
		begin := time.Now()
		p.do(failure(errUpstreamAway), "DEL", "k")
		if took := time.Since(begin); f.refused.Load() != 1 || took >= 50*time.Millisecond {
			t.Errorf("Refused was called %d times and the reply took %v, want once, and less than two dials", f.refused.Load(), took)
		}
	})
}

// TestSidecar_NoPermission checks that the error for a missing permission names the user of the sidecar on the upstream.
func TestSidecar_NoPermission(t *testing.T) {
	t.Parallel()
	_, up, side := newSidecar(t, nil)
	p, direct := side.dial(), up.dial()
	direct.do("+OK\r\n", "ACL", "SETUSER", "default", "-del", "resetkeys", "~app:*")
	p.do("-NOPERM the upstream user app has no permissions to run the 'del' command\r\n", "DEL", "app:k")
	p.do("-NOPERM the upstream user app has no permissions to access one of the keys used as arguments\r\n", "TTL", "k")
	direct.do("-NOPERM this user has no permissions to run the 'del' command\r\n", "DEL", "app:k")
	direct.do("+OK\r\n", "ACL", "SETUSER", "default", "+@all", "~*")
}
