package server

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/options"
)

func always(right bool) func() bool { return func() bool { return right } }

// TestAuthLimiter makes as many failed attempts from one address as the limit allows. Later attempts from this address
// must be refused until the limit allows another failure.
func TestAuthLimiter(t *testing.T) {
	t.Parallel()
	var l authLimiter
	g := failureLimit{netip.MustParseAddr("192.0.2.1"), 20}
	now := uint64(time.Hour)
	for i := range 20 {
		if ok, wait := l.attempt(g, now, always(false)); ok || wait != 0 {
			t.Fatalf("wrong password %d: got %v, wait %v, want false and 0s", i+1, ok, wait)
		}
		if ok, wait := l.attempt(g, now, always(true)); i < 19 && (!ok || wait != 0) {
			t.Fatalf("the right password after wrong password %d: got %v, wait %v, want true and 0s", i+1, ok, wait)
		}
	}
	asked := func() bool {
		t.Error("a password was checked beyond the limit")
		return true
	}
	if ok, wait := l.attempt(g, now, asked); ok || wait != 3*time.Second {
		t.Errorf("beyond the limit: got %v, wait %v, want false and 3s", ok, wait)
	}
	if ok, wait := l.attempt(g, now+uint64(3*time.Second)-1, asked); ok || wait != 1 {
		t.Errorf("1 ns before the end of the wait: got %v, wait %v, want false and 1ns", ok, wait)
	}
	for range 100 { // a right password is not charged
		if ok, _ := l.attempt(g, now+uint64(3*time.Second), always(true)); !ok {
			t.Error("the right password was refused after the wait")
		}
	}
	if ok, wait := l.attempt(failureLimit{netip.MustParseAddr("192.0.2.2"), 20}, now, always(false)); ok || wait != 0 {
		t.Errorf("a wrong password from another address: got %v, wait %v, want false and 0s", ok, wait)
	}
	if failed, refused := l.failed.Load(), l.refused.Load(); failed != 21 || refused != 3 {
		t.Errorf("%d attempts failed and %d were refused, want 21 and 3", failed, refused)
	}
}

// TestAuthLimiterIsExact checks that concurrent attempts do not exceed the limit.
func TestAuthLimiterIsExact(t *testing.T) {
	t.Parallel()
	var l authLimiter
	var checked atomic.Int64
	var running sync.WaitGroup
	for range 64 {
		running.Go(func() {
			for range 10 {
				l.attempt(failureLimit{netip.MustParseAddr("::1"), 7}, 1, func() bool { return checked.Add(1) < 0 })
			}
		})
	}
	running.Wait()
	if checked.Load() != 7 {
		t.Errorf("%d passwords were checked, want 7", checked.Load())
	}
}

// TestAuthLimiterIsBounded gives wrong passwords from more addresses than the limiter stores. An address with more
// failures than the others must remain limited.
func TestAuthLimiterIsBounded(t *testing.T) {
	t.Parallel()
	var l authLimiter
	bad := failureLimit{netip.MustParseAddr("10.0.0.1"), 5}
	for range 5 {
		l.attempt(bad, 1, always(false))
	}
	for i := range 3 * maxAuthSources {
		from := netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)})
		l.attempt(failureLimit{from, 5}, 1, always(false))
	}
	if len(l.tats) > maxAuthSources {
		t.Errorf("%d addresses are stored, want at most maxAuthSources", len(l.tats))
	}
	if _, wait := l.attempt(bad, 1, always(true)); wait == 0 {
		t.Error("the address with the most failures is not limited: it was removed")
	}
	later := uint64(time.Hour)
	l.attempt(failureLimit{netip.MustParseAddr("12.0.0.1"), 5}, later, always(false))
	if len(l.tats) > maxAuthSources-50 {
		t.Errorf("%d addresses are stored after a failure at a time when all earlier TATs had passed, want at most maxAuthSources-50", len(l.tats))
	}
}

// dialFrom connects from a local address.
func (s *testServer) dialFrom(ip string) *peer {
	s.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	conn, err := d.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatalf("dial from %s: %v", ip, err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return newPeer(s.t, conn)
}

// TestAuthIsLimited checks that the limit on failed logins from an address also applies to new connections.
func TestAuthIsLimited(t *testing.T) {
	t.Parallel()
	const limit = 6
	s := start(t, func(o *options.Options) { o.RequirePass, o.AuthFailuresPerMinute = "secret", limit })
	old := s.dialFrom("127.0.0.2")
	old.do("+OK\r\n", "AUTH", "secret")
	refused := 0
	for i := range 10 * limit {
		p := s.dialFrom("127.0.0.2")
		call := [][]string{{"AUTH", "x"}, {"AUTH", "default", "x"}, {"HELLO", "3", "AUTH", "default", "x"}}[i%3]
		got := p.ask(call...).text
		switch {
		case strings.HasPrefix(got, "ERR too many wrong passwords from this address: this attempt was not checked, try again in "):
			refused++
		case !strings.HasPrefix(got, "WRONGPASS "):
			t.Fatalf("got %q, want WRONGPASS or an error for too many wrong passwords", got)
		}
		_ = p.Close()
	}
	s.dialFrom("127.0.0.2").fails("ERR too many wrong passwords", "AUTH", "secret")
	s.dialFrom("127.0.0.3").do("+OK\r\n", "AUTH", "secret")
	info := old.info("stats")
	if failed := 10*limit - refused; failed < limit || failed > limit+6 { // in less than a minute, the limit permits at most 6 more failures
		t.Errorf("%d passwords were checked, want at least %d, and at most 6 more, which the limit permits within a minute", failed, limit)
	} else if info["acl_access_denied_auth"] != fmt.Sprint(failed) || info["auth_attempts_refused"] != fmt.Sprint(refused+1) {
		t.Errorf("%d attempts failed and %d were refused, but INFO shows %s and %s", failed, refused+1, info["acl_access_denied_auth"], info["auth_attempts_refused"])
	}
	old.do("+OK\r\n", "CONFIG", "SET", "auth-failures-per-minute", "0")
	s.dialFrom("127.0.0.2").do("+OK\r\n", "AUTH", "secret")
}

// TestAuthIsLimitedOnAllPorts checks that a failure on the port for clients of Redis Cluster also counts on the other
// ports.
func TestAuthIsLimitedOnAllPorts(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	n := l.nodes["a"]
	admin := n.dial()
	admin.do("+OK\r\n", "CONFIG", "SET", "requirepass", "secret", "auth-failures-per-minute", "1")
	n.at(n.cluster).do(failure(errWrongPass), "AUTH", "x")
	n.at(n.sentinel).fails("ERR too many wrong passwords", "AUTH", "secret")
	n.at(n.cluster).fails("ERR too many wrong passwords", "AUTH", "secret")
	n.dial().fails("ERR too many wrong passwords", "HELLO", "3", "AUTH", "default", "secret")
}
