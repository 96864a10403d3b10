package peerlink

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

// keepAlive gives a silent peer half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Link is the port of a node for other nodes. Its methods may be called by several
// goroutines at once.
type Link struct {
	cfg       Config
	advertise address
	ln        net.Listener
	papers    *papers // nil: there are no certificates
	revoked   *revocations
	notices   *notices
	streams   map[Purpose]*Streams

	allowed  atomic.Pointer[func(node string, p Purpose) bool]
	expected atomic.Pointer[func(addr string) string]
	recovery atomic.Pointer[topology.Recovery] // nil: the node has none yet
	current  atomic.Pointer[func(node string, boot uint64) bool]

	ctx   context.Context // ends with the Link
	end   context.CancelFunc
	tasks sync.WaitGroup // goroutines of the Link

	mu       sync.Mutex
	closed   bool
	pending  []*pending // connections that are no streams yet, oldest first
	open     map[*conn]struct{}
	accepted int         // of open
	perPeer  map[use]int // accepted ones
}

// Listen opens a Link. Errors wrap ErrInsecure, ErrNoCertificate, certs.ErrName or those
// of reading the certificates and of the system.
func Listen(cfg Config) (*Link, error) {
	l, err := newLink(cfg)
	if err != nil {
		return nil, err
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive, Control: l.control}
	ln, err := lc.Listen(l.ctx, "tcp", l.cfg.Bind)
	if err != nil {
		l.end()
		return nil, fmt.Errorf("listen for nodes: %w", err)
	}
	l.start(ln)
	return l, nil
}

// newLink makes a Link that does not listen yet.
func newLink(cfg Config) (*Link, error) {
	cfg.complete()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	l := &Link{cfg: cfg, revoked: &revocations{file: cfg.RevokedFile}, open: map[*conn]struct{}{}, perPeer: map[use]int{}, streams: map[Purpose]*Streams{}}
	l.notices = &notices{log: cfg.Log, now: cfg.Now, kinds: map[string]*notice{}}
	if !cfg.Insecure {
		l.papers = &papers{cfg: &l.cfg}
		if err := l.papers.read(); err != nil {
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

// start begins to accept.
func (l *Link) start(ln net.Listener) {
	l.ln, l.advertise = ln, address(l.cfg.Advertise)
	if _, port, _ := splitAddress(l.cfg.Advertise); port == 0 {
		l.advertise = address(ln.Addr().String())
	}
	l.tasks.Go(l.accept)
	if l.papers != nil && l.cfg.RevokedFile != "" {
		l.tasks.Go(l.watchRevoked)
	}
}

// control keeps a Link without certificates on loopback, wherever a name leads.
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

// SetAllowed sets which nodes may have streams of the purposes Raft and Client, accepted and dialed;
// nil stands for any of the cluster, as before the first call. The function is called for each stream,
// also concurrently. When its answers change call Recheck. Streams of the purpose Control are open to
// any node of the cluster: the one that answers a question decides by what is asked.
//
// A node never opens Raft or Client streams to itself: a peer of its name is another node with the
// same one, and not allowed.
func (l *Link) SetAllowed(allowed func(node string, p Purpose) bool) {
	if allowed == nil {
		l.allowed.Store(nil)
	} else {
		l.allowed.Store(&allowed)
	}
	l.Recheck()
}

// Recheck closes the streams that their nodes may not have any more: those of nodes that are not
// allowed, and those of certificates that are revoked.
func (l *Link) Recheck() {
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		if err := l.barred(c); err != nil {
			l.notices.warn("closed", time.Minute, "closed a stream of a node", "node", c.peer, "purpose", c.purpose, "reason", err)
			c.abort()
		}
	}
}

// barred returns why a stream must not stay open, or nil.
func (l *Link) barred(c *conn) error {
	if !l.allows(c.peer, c.purpose) {
		return fmt.Errorf("%w: %s for node %s", ErrNotAllowed, c.purpose, c.peer)
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

// SetExpected says which node is meant by an address that Raft dials; "" stands for any of
// the cluster, as do nil and the time before the first call. Without it two addresses
// that lead to one node by mistake would give that node two votes.
func (l *Link) SetExpected(expected func(addr string) (node string)) {
	if expected == nil {
		l.expected.Store(nil)
		return
	}
	l.expected.Store(&expected)
}

// identity returns the certificates to use, which are nil if there are to be none.
func (l *Link) identity() *identity {
	if l.papers == nil {
		return nil
	}
	id, err := l.papers.get()
	if err != nil {
		l.notices.warn("reload", time.Minute, "certificate files have changed and cannot be used", "error", err)
	}
	if left := id.expires().Sub(l.cfg.Now()); left < expiresSoon {
		l.notices.warn("expires", 24*time.Hour, "the certificate of this node expires soon", "at", id.expires())
	}
	return id
}

// Reload reads the certificates, as Listen does. Without it, files that have changed are read within a
// second. An error leaves those in use that were read before.
func (l *Link) Reload() error {
	if l.papers == nil {
		return nil
	}
	return l.papers.read()
}

// Close ends the Link and all streams that it accepted or dialled, and waits for its
// goroutines. Calls after the first do nothing.
func (l *Link) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		l.tasks.Wait()
		return nil
	}
	l.closed = true
	for _, p := range l.pending {
		_ = p.Close() // nobody is there to tell
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
