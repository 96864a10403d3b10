package transport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// keepAlive closes a connection if the machine of the peer does not respond for half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Link is the endpoint of a node for connections to and from other nodes. Its methods are
// safe for concurrent use.
type Link struct {
	cfg       Config
	advertise address
	ln        net.Listener
	certs     *certReloader // nil: insecure, without certificates
	revoked   *revocations
	log       *rateLog
	streams   map[Purpose]*Streams

	allowed  atomic.Pointer[func(node string, p Purpose) bool]
	expected atomic.Pointer[func(addr string) string]
	recovery atomic.Pointer[topology.Recovery] // nil: SetRecovery was not called yet
	current  atomic.Pointer[func(node string, boot uint64) bool]

	ctx   context.Context // canceled when the Link is closed
	end   context.CancelFunc
	tasks sync.WaitGroup // goroutines of the Link

	mu       sync.Mutex
	closed   bool
	pending  []*pending // connections that are not streams yet, oldest first
	open     map[*conn]struct{}
	accepted int               // number of accepted streams in open
	perPeer  map[streamKey]int // number of accepted streams for each key
}

// Listen opens a Link. Errors wrap ErrInsecure, ErrNoCertificate, topology.ErrName, or an
// error of the system or of reading the certificates.
func Listen(cfg Config) (*Link, error) {
	l, err := newLink(cfg)
	if err != nil {
		return nil, err
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive, Control: l.control}
	ln, err := lc.Listen(l.ctx, "tcp", l.cfg.Bind)
	if err != nil {
		l.end()
		return nil, fmt.Errorf("raft-addr: listen for nodes: %w", err)
	}
	l.start(ln)
	return l, nil
}

// newLink creates a Link that does not listen yet.
func newLink(cfg Config) (*Link, error) {
	cfg.complete()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	l := &Link{cfg: cfg, revoked: &revocations{file: cfg.RevokedFile}, open: map[*conn]struct{}{}, perPeer: map[streamKey]int{}, streams: map[Purpose]*Streams{}}
	l.log = newRateLog(cfg.Log, cfg.Now)
	if !cfg.Insecure {
		l.certs = &certReloader{cfg: &l.cfg}
		if err := l.certs.read(); err != nil {
			return nil, err
		}
		if err := l.readRevoked(); err != nil {
			return nil, err
		}
	}
	for _, p := range []Purpose{Raft, Client, Control} {
		l.streams[p] = newStreams(l)
	}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l, nil
}

// start starts to accept connections.
func (l *Link) start(ln net.Listener) {
	l.ln, l.advertise = ln, address(l.cfg.Advertise)
	if _, port, _ := splitAddress(l.cfg.Advertise); port == 0 {
		l.advertise = address(ln.Addr().String())
	}
	l.tasks.Go(l.accept)
	if l.certs != nil && l.cfg.RevokedFile != "" {
		l.tasks.Go(l.watchRevoked)
	}
}

// control restricts an insecure Link to loopback addresses. The dialer and the listener call it with
// resolved addresses.
func (l *Link) control(_, addr string, _ syscall.RawConn) error {
	host, _, err := splitAddress(addr)
	if err != nil {
		return err
	}
	if l.cfg.Insecure && !isLoopback(host) {
		return ErrInsecure
	}
	return nil
}

// SetAllowed sets the function that reports whether a node may have streams of the purposes Raft and Client
// with this node, in both directions. If allowed is nil, which is the default, every node of the cluster is
// allowed. The function is called for each stream and must be safe for concurrent use. Call Recheck when its
// results change. Control streams are open to every node of the cluster: each request on them is authorized
// separately.
//
// A node never opens Raft or Client streams to itself. A peer with the name of this node
// is therefore a different node with the same name, and is not allowed.
func (l *Link) SetAllowed(allowed func(node string, p Purpose) bool) {
	if allowed == nil {
		l.allowed.Store(nil)
	} else {
		l.allowed.Store(&allowed)
	}
	l.Recheck()
}

// Recheck closes the streams that are no longer permitted: streams with nodes that are not allowed or
// whose data is not current, and streams with revoked certificates.
func (l *Link) Recheck() {
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		if err := l.checkPermitted(c); err != nil {
			l.log.warn("closed", "closed a stream of a node", "node", c.peer, "purpose", c.purpose, "reason", err)
			c.abort()
		}
	}
}

// checkPermitted returns nil if a stream may stay open, or the reason why not.
func (l *Link) checkPermitted(c *conn) error {
	if !l.allows(c.peer, c.purpose) {
		return fmt.Errorf("%w: purpose %s, node %s", ErrNotAllowed, c.purpose, c.peer)
	}
	if c.purpose != Control && !l.isCurrent(c.peer, c.boot) {
		return fmt.Errorf("%w: node %s, boot %d", ErrOutdated, c.peer, c.boot)
	}
	return l.revoked.check(c.chain)
}

func (l *Link) allows(node string, p Purpose) bool {
	if p == Control {
		return true
	}
	allowed := l.allowed.Load()
	return node != l.cfg.Node && (allowed == nil || (*allowed)(node, p))
}

// SetExpected sets the function that returns the node expected at an address that Raft dials, or ""
// for any node of the cluster. If expected is nil, which is the default, any node is accepted at
// every address. Without such a function, a node that is mistakenly reached at two addresses would
// have two votes.
func (l *Link) SetExpected(expected func(addr string) (node string)) {
	if expected == nil {
		l.expected.Store(nil)
		return
	}
	l.expected.Store(&expected)
}

// identity returns the certificates to use, or nil if the Link is insecure.
func (l *Link) identity() *identity {
	if l.certs == nil {
		return nil
	}
	id, err := l.certs.get()
	if err != nil {
		l.log.warn("reload", "cannot load the changed certificate files; the previous certificates stay in use", "error", err)
	}
	if left := id.expires().Sub(l.cfg.Now()); left < expiresSoon {
		l.log.warnDaily("expires", "the certificate of this node expires soon: renew it with throttled certs --renew", "expires", id.expires())
	}
	return id
}

// Expiry returns the times at which the certificate of this node and that of the CA expire. ok is false if the Link is
// insecure. If there are several CA certificates, ca is the earliest of their times. Changed files are read, as in a
// handshake.
func (l *Link) Expiry() (node, ca time.Time, ok bool) {
	id := l.identity()
	if id == nil {
		return time.Time{}, time.Time{}, false
	}
	return id.expires(), id.caEnd, true
}

// Reload reads the certificates again, as Listen does. A handshake also reads changed files, unless
// the files were checked less than a second ago. After an error the previous certificates stay in
// use.
func (l *Link) Reload() error {
	if l.certs == nil {
		return nil
	}
	return l.certs.read()
}

// Close closes the Link and all streams that it accepted or dialed, and waits for its
// goroutines. Further calls have no effect.
func (l *Link) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		l.tasks.Wait()
		return nil
	}
	l.closed = true
	for _, p := range l.pending {
		_ = p.Close() // a failure to close has no effect
	}
	for c := range l.open {
		c.abort()
	}
	l.mu.Unlock()
	l.end()
	err := l.ln.Close()
	for _, s := range l.streams {
		err = errors.Join(err, s.Close())
	}
	l.tasks.Wait()
	return err
}
