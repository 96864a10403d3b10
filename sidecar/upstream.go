package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/internal/lograte"
	"github.com/throttledhq/throttled/lessee"
	"github.com/throttledhq/throttled/topology"
)

// Intervals of an Upstream.
const (
	keepAlive     = 15 * time.Second // between TCP keep-alive probes
	probeInterval = time.Second      // between probes of an upstream that answers
	patience      = 5 * time.Second  // maximum wait for an address before another attempt
	firstBackoff  = 10 * time.Millisecond
	maxBackoff    = 250 * time.Millisecond
	authBackoff   = 5 * time.Second       // after refused credentials, since the upstream limits wrong passwords
	headStart     = 20 * time.Millisecond // from one address to the next, so that the order of addresses counts
	followBackoff = 30 * time.Second      // between attempts to connect to a leader that is not reachable
	// followTrips is the number of timeouts for which a sidecar waits for a connection to the leader, and sends no probes
	// meanwhile: a connection with TLS takes several round trips.
	followTrips = 4
)

// Config configures an Upstream. All fields except Log are required.
type Config struct {
	Addresses   []string // host:port of the upstream; of any nodes, if it is a cluster
	Credentials Credentials
	// Timeout is the time after which an upstream that does not answer counts as silent.
	Timeout time.Duration
	Log     *slog.Logger // optional; nil disables logging
	// Leases decides some of the requests. Optional; if nil, all requests are forwarded.
	Leases *Leases
}

// Upstream is the upstream server of a sidecar. It is safe for concurrent use. Run must be called once.
type Upstream struct {
	config  Config
	nodes   nodes // used by Run
	view    atomic.Pointer[topology.View]
	silent  atomic.Bool
	suspect chan struct{} // holds a token if a probe must be sent
	lines   *lograte.Limiter
	gate    gate // of Dial
	// confirmed is the time, by lessee.Now, of the last question to which the upstream has answered that the rules of the sidecar
	// are the newest; 0 if there is none.
	confirmed atomic.Int64

	mu      sync.Mutex
	changed chan struct{} // closed with the next view
	status  topology.Upstream
}

// New returns an Upstream without a connection.
func New(c Config) *Upstream {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	u := &Upstream{config: c, nodes: nodes{configured: c.Addresses}, suspect: make(chan struct{}, 1), lines: newLines(), changed: make(chan struct{})}
	u.status = topology.Upstream{Addresses: c.Addresses, Since: time.Now()}
	u.view.Store(&topology.View{Changed: u.changed})
	return u
}

// Run selects an address, and another one whenever the selected address fails, until ctx is done.
func (u *Upstream) Run(ctx context.Context) {
	first := 0
	for {
		p := u.find(ctx, first)
		if p == nil {
			return
		}
		u.publish(p.addr, nil)
		p, err := u.watch(ctx, p)
		p.close()
		u.publish("", err)
		first = u.nodes.indexAfter(p.addr)
	}
}

// find connects to all addresses concurrently, and returns the first connection on which the upstream answers. The
// address with the index first has a head start. find returns nil when ctx is done.
func (u *Upstream) find(ctx context.Context, first int) *prober {
	timer := time.AfterFunc(u.config.Timeout, func() { u.silent.Store(true) })
	defer timer.Stop()
	ctx, cancel := context.WithCancel(ctx)
	list := u.nodes.all()
	found := make(chan *prober, len(list))
	var tries sync.WaitGroup
	for i := range list {
		tries.Go(func() {
			if p := u.try(ctx, list[(first+i)%len(list)], time.Duration(i)*headStart); p != nil {
				found <- p
				cancel()
			}
		})
	}
	<-ctx.Done()
	tries.Wait()
	cancel()
	close(found)
	return keepFirst(found)
}

// keepFirst returns the first prober, and closes the others. It returns nil if there is none.
func keepFirst(found <-chan *prober) *prober {
	first := <-found
	for p := range found {
		p.close()
	}
	return first
}

// try connects to an address after a delay, with exponential backoff between attempts, until it succeeds or ctx is done.
func (u *Upstream) try(ctx context.Context, addr string, delay time.Duration) *prober {
	for backoff := firstBackoff; sleep(ctx, delay); backoff = min(2*backoff, maxBackoff) {
		attempt, cancel := context.WithTimeout(ctx, patience)
		p, err := openNode(attempt, &u.config.Credentials, addr)
		cancel()
		if err == nil {
			return p
		}
		delay = jittered(backoff)
		if refused := new(authError); errors.As(err, &refused) {
			delay = jittered(authBackoff)
		}
		if ctx.Err() == nil {
			u.fail(addr, err)
		}
	}
	return nil
}

// jittered returns a random duration from d/2 to d, so that many sidecars do not connect at the same time.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) } // #nosec G404 -- a delay

// sleep waits, and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// watch sends probes on the connection of the selected address, until one fails or ctx is done. It selects the leader
// instead if the node has another one. It returns the connection of the address selected last.
func (u *Upstream) watch(ctx context.Context, p *prober) (*prober, error) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var follow follower
	for {
		u.learn(p)
		if q := follow.open(ctx, u, p); q != nil {
			p.close()
			p = q
			u.publish(p.addr, nil)
		}
		timer.Reset(jittered(probeInterval))
		select {
		case <-ctx.Done():
			return p, ctx.Err()
		case _, open := <-p.answers:
			if open { // no probe is in progress
				return p, errFormat
			}
			return p, p.failure
		case <-timer.C:
		case <-u.suspect:
		}
		attempt, cancel := context.WithTimeout(ctx, u.config.Timeout)
		err := p.probe(attempt)
		cancel()
		if err != nil {
			return p, err
		}
		u.answered()
	}
}

// learn uses the addresses of the leader and of the nodes that it has named, in addition to the configured ones. An answer
// without nodes changes nothing: it is that of a follower, or of a leader without connected followers.
func (u *Upstream) learn(p *prober) {
	if len(p.replicas) == 0 || !u.nodes.learn(append([]string{p.addr}, p.replicas...)) {
		return
	}
	u.mu.Lock()
	u.status.Learned = slices.Clone(u.nodes.learned)
	u.mu.Unlock()
	u.config.Log.Debug("the leader of the upstream has named nodes", "addresses", u.nodes.learned)
}

// Suspect reports that the upstream has not replied to a command in time. Until it answers a probe, Silent returns true.
func (u *Upstream) Suspect() {
	u.silent.Store(true)
	select {
	case u.suspect <- struct{}{}:
	default:
	}
}

// Silent reports whether the upstream does not answer at present, so that waiting for it is useless.
func (u *Upstream) Silent() bool { return u.silent.Load() }

// Decides reports whether the sidecar decides some requests itself.
func (u *Upstream) Decides() bool { return u.config.Leases != nil }

// RulesKnown reports whether the rules of the sidecar were the newest of the upstream within rulesAge.
func (u *Upstream) RulesKnown() bool {
	at := u.confirmed.Load()
	return at != 0 && lessee.Now()-at < int64(rulesAge)
}

// Upstream returns the status of the upstream.
func (u *Upstream) Upstream() topology.Upstream {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.status
	s.Lessee = u.config.Leases.status()
	return s
}

func (u *Upstream) answered() {
	u.mu.Lock()
	u.status.Answered = time.Now()
	u.mu.Unlock()
	u.silent.Store(false)
}

// fail records the error of an attempt to connect. Only the first one after an answer is logged as a warning.
func (u *Upstream) fail(addr string, err error) {
	u.mu.Lock()
	u.status.Failures++
	first := u.status.Error == ""
	u.status.Error = addr + ": " + err.Error()
	u.mu.Unlock()
	level := slog.LevelDebug
	if first {
		level = slog.LevelWarn
	}
	u.config.Log.Log(context.Background(), level, "cannot connect to the upstream", "address", addr, "error", err)
}

// publish makes an address the leader in a new view. If addr is empty, err is the reason why the former address is not
// used any more.
func (u *Upstream) publish(addr string, err error) {
	now := time.Now()
	u.mu.Lock()
	old, s := u.view.Load(), &u.status
	s.Address, s.Since = addr, now
	next := &topology.View{Leader: addr, Term: old.Term, Changed: make(chan struct{})}
	if addr != "" {
		s.Connects++
		s.Answered, s.Error = now, ""
		next.Term++
	} else {
		s.Error = err.Error()
	}
	closing := u.changed
	u.changed = make(chan struct{})
	next.Changed = u.changed
	u.view.Store(next)
	close(closing)
	u.mu.Unlock()
	if addr != "" {
		u.gate.accept(addr)
		u.silent.Store(false)
		u.config.Log.Info("connected to the upstream", "address", addr)
	} else if !errors.Is(err, context.Canceled) {
		u.config.Log.Warn("the upstream was lost", "error", err)
	}
}

// Dial opens a connection to an address of the upstream. See topology.Cluster. If the address has refused a connection recently,
// the error is that refusal, a *topology.ConnRefusedError.
func (u *Upstream) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if err := u.gate.enter(addr, time.Now()); err != nil {
		return nil, err
	}
	conn, err := u.config.Credentials.connect(ctx, addr)
	switch refused := new(authError); {
	case errors.As(err, &refused):
		err = &topology.ConnRefusedError{Node: addr, Err: refused}
		u.Refused(err)
	case err == nil && u.config.Credentials.PasswordFile != "": // the address has replied
		u.gate.accept(addr)
	}
	return conn, err
}

// User returns the name of the user of the sidecar on the upstream. It is empty if the name can follow from a certificate.
func (u *Upstream) User() string { return u.config.Credentials.user() }

// Refused records that the upstream, which answers probes on an open connection, has refused another connection: after a change of
// its password, or if it has too many clients. It is called once for each of these connections. The same error is logged once an
// hour.
func (u *Upstream) Refused(err error) {
	if refused := new(topology.ConnRefusedError); errors.As(err, &refused) {
		u.gate.refuse(refused, time.Now())
	}
	u.mu.Lock()
	u.status.Failures++
	u.mu.Unlock()
	if _, ok := u.lines.Allow(err.Error(), time.Now()); ok {
		u.config.Log.Warn("the upstream refuses connections: requests without one are decided by upstream-away", "user", u.User(), "error", err)
	}
}

// newLines returns the limit for log lines of the same text.
func newLines() *lograte.Limiter { return lograte.New(1, time.Hour) }
