package server

import (
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/options"
)

// silent opens n connections from an address, and sends nothing.
func (s *testServer) silent(ip string, n int) []*peer {
	s.t.Helper()
	peers := make([]*peer, n)
	for i := range peers {
		peers[i] = s.dialFrom(ip)
	}
	return peers
}

// TestSilentStrangers repeatedly takes all places with connections that send nothing. Other clients must still be
// able to connect immediately, and must stay connected.
func TestSilentStrangers(t *testing.T) {
	for name, change := range map[string]func(o *options.Options){
		"no password": func(*options.Options) {}, "password": withPassword,
	} {
		t.Run(name, func(t *testing.T) {
			const places = 400
			s := start(t, func(o *options.Options) { change(o); o.MaxClients = places })
			login := func(p *peer) {
				t.Helper()
				if s.opts.Get().RequirePass != "" {
					p.do("+OK\r\n", "AUTH", "secret")
				}
				p.do("+PONG\r\n", "PING")
			}
			var known []*peer
			for wave := range 5 {
				s.silent("127.0.0."+strconv.Itoa(2+wave%3), places)
				p := s.dial()
				login(p)
				known = append(known, p)
			}
			for _, p := range known {
				p.do("+PONG\r\n", "PING")
			}
			if n := known[0].count("stats", "displaced_connections"); n < places {
				t.Errorf("%d connections were displaced, want at least 400", n)
			}
			if n := known[0].count("clients", "connected_clients"); n > places+maxDisplaced {
				t.Errorf("%d clients are connected, want at most %d (the number of places) plus maxDisplaced", n, places)
			}
		})
	}
}

// TestUnauthenticatedNewcomers checks that clients that send commands without authenticating are displaced.
func TestUnauthenticatedNewcomers(t *testing.T) {
	t.Parallel()
	const places = 20
	s := start(t, func(o *options.Options) { withPassword(o); o.MaxClients = places })
	for range 2 * places {
		s.dialFrom("127.0.0.2").do(failure(errNoAuth), "PING")
	}
	p := s.dial()
	p.do("+OK\r\n", "AUTH", "secret")
	p.do("+PONG\r\n", "PING")
}

// TestShareOfAnAddress checks that newcomers from one address cannot take all places.
func TestShareOfAnAddress(t *testing.T) {
	t.Parallel()
	const places = 100
	s := start(t, func(o *options.Options) { o.MaxClients = places })
	p := s.greet()
	for i := range int64(3 * places) {
		s.dialFrom("127.0.0.2")
		if !eventually(func() bool { return s.stats.connections.Load() == 2+i }) {
			t.Fatal("a connection from 127.0.0.2 was not accepted")
		}
		if n := p.count("clients", "connected_clients"); n > places-places/crowdedShare+maxDisplaced {
			t.Fatalf("%d of %d places are taken, want at most 3/4 of all places, plus maxDisplaced", n, places)
		}
	}
	p.await("clients", "connected_clients", places-places/crowdedShare)
}

// fakeConn is a connection with the given remote address.
type fakeConn struct {
	net.Conn
	ip string
}

func (c fakeConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.ip), Port: 1} }

// TestMakeRoom checks that makeRoom displaces the oldest newcomer from the address with the most newcomers.
func TestMakeRoom(t *testing.T) {
	t.Parallel()
	a := admission{ended: sync.NewCond(new(sync.Mutex))}
	add := func(ip string) *connection {
		c := &connection{socket: &socket{Conn: fakeConn{ip: ip}}}
		a.add(c)
		return c
	}
	one := add("10.0.0.1")
	first, second := add("10.0.0.2"), add("10.0.0.2")
	const places = 8
	expect := func(served int, want *connection, wantRoom room) {
		t.Helper()
		if victim, r := a.makeRoom(served, places); victim != want || r != wantRoom {
			t.Errorf("makeRoom with %d connections: got victim %p, room %v, want %p, %v", served, victim, r, want, wantRoom)
		}
	}
	expect(3, nil, roomFree)
	expect(6, nil, roomFree) // places are scarce, but no address has more than its share of two newcomers
	expect(8, first, roomFree)
	expect(8, nil, roomFree) // one of the eight connections is being closed, so a place is free
	a.forget(first)
	a.forget(one)
	expect(8, second, roomFree)
	expect(9, nil, roomNone) // no newcomers are left
	a.forget(second)
	if len(a.sources) != 0 || len(a.byNumber) != 0 || a.displaced != 0 {
		t.Errorf("after all newcomers were forgotten: want no sources and no displaced newcomers, got %+v", a)
	}
	for range maxDisplaced {
		c := add("10.0.0.3")
		expect(places+a.displaced, c, roomFree)
	}
	add("10.0.0.3")
	expect(places+a.displaced, nil, roomSoon) // too many newcomers are being closed
}

// TestAuthTimeoutWhileScarce checks that clients have less time to authenticate while places are scarce.
func TestAuthTimeoutWhileScarce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ln := setup{options: func(o *options.Options) { withPassword(o); o.MaxClients = 4 }}.startPiped(t)
		limit := s.opts.Get().CommandTimeout
		begin := time.Now()
		newPeer(t, ln.connect()).closed()
		if took := time.Since(begin); took < limit-tick {
			t.Errorf("the only connection was closed after %v, want not before command-timeout", took)
		}
		for range 2 {
			newPeer(t, ln.connect()).do("+OK\r\n", "AUTH", "secret")
		}
		begin = time.Now()
		newPeer(t, ln.connect()).closed()
		if took := time.Since(begin); took < limit/scarceTimeoutDivisor-tick || took > limit/scarceTimeoutDivisor+grain {
			t.Errorf("while places were scarce, a connection was closed after %v, want %v", took, limit/scarceTimeoutDivisor)
		}
	})
}
