package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/cluster/raftstore"
	"github.com/throttledhq/throttled/topology"
)

// simNode is a node in a simulated cluster. It is not replaced when its process is restarted.
type simNode struct {
	sim         *sim
	id          string
	incarnation string
	join        []string
	bootstrap   []topology.Member
	disk        *disk
	starts      uint64                 // boot number on the disk
	lineage     raftstore.Lineage      // lineage on the disk; guarded by sim.mu
	skew        atomic.Int64           // offset of its wall clock, in nanoseconds
	looks       atomic.Pointer[func()] // called when its wall clock is read; optional
	life        *life                  // nil while it is down; guarded by sim.mu
	gone        bool                   // the node was removed and has exited; guarded by sim.mu
}

// life is one process of a node.
type life struct {
	*Node
	node    *simNode
	disk    *disk
	wire    *wire
	ctx     context.Context // canceled at the end of the process
	end     context.CancelFunc
	started chan struct{} // closed when Start has returned
	err     error         // error of Start
	fuzzy   atomic.Uint64 // until the entry with this index is applied, the state may contain changes of later entries
	refuses atomic.Bool   // refuses streams that others dial

	mu      sync.Mutex
	paused  chan struct{} // closed when the process is resumed; nil while it is running
	streams []net.Conn    // dialed by other processes
}

// accept accepts a stream that another process has opened.
func (l *life) accept(stream net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = append(l.streams, stream)
}

// closeStreams closes the streams that other processes have opened. The process keeps running.
func (l *life) closeStreams() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = len(l.streams)
	for _, stream := range l.streams {
		_ = stream.Close()
	}
	l.streams = nil
	return n
}

var verbose = flag.Bool("simlog", false, "write the logs of simulated nodes to standard error")

// boot starts a process.
func (n *simNode) boot() *life {
	l := &life{node: n, disk: n.disk, started: make(chan struct{})}
	process := fmt.Sprint(rand.Uint64())
	lineage := n.recordStart(process)
	l.ctx, l.end = context.WithCancel(context.Background())
	l.wire = newWire(l)
	clock := NewClock()
	eviction := buckets.NoEviction
	if n.sim.c.memory > 0 {
		eviction = buckets.EvictSmallestDebt
	}
	c := Config{
		Cluster: "sim", Version: "test", Advertise: n.id,
		Self:      Announcement{ID: n.id, Incarnation: n.incarnation, Boot: n.starts, Process: process, Lineage: lineage, Host: "127.0.0.1", Port: 1},
		Bootstrap: n.bootstrap, Join: n.join, Peers: simPeers{l}, Async: n.sim.c.async, Heartbeat: n.sim.c.heartbeat(n.id),
		Table: buckets.New(buckets.Config{Clock: clock.Now, Replicated: true, Shards: max(1, n.sim.c.shards), MaxMemory: n.sim.c.memory, Eviction: eviction}),
		Clock: clock,
		Logs:  l.disk, Stable: l.disk, Snapshots: l.disk, Transport: l.wire,
		Wall: n.wall,
		Tune: l.tune, Fatal: l.fatal, Installed: l.installed, Announced: l.noteAnnounced,
	}
	if n.sim.c.logger != nil {
		c.Logger = n.sim.c.logger.With("node", n.id)
	}
	if *verbose {
		c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", n.id)
		c.RaftLogger = hclog.New(&hclog.LoggerOptions{Name: n.id, Level: hclog.Debug})
	}
	l.Node = New(c)
	l.disk.saved = l.saved
	n.sim.mu.Lock()
	n.life = l
	n.sim.mu.Unlock()
	go func() {
		defer close(l.started)
		l.err = l.Start(l.ctx)
	}()
	return l
}

// recordStart increments the boot number on the disk, and appends the process to the lineage on the disk.
func (n *simNode) recordStart(process string) raftstore.Lineage {
	n.sim.mu.Lock()
	defer n.sim.mu.Unlock()
	n.starts++
	n.lineage = n.lineage.WithStart(n.starts, process)
	return n.lineage
}

func (l *life) noteAnnounced() error {
	s := l.node.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.node.life == l {
		l.node.lineage = l.node.lineage.Announced(l.node.starts)
	}
	return nil
}

// wall returns the wall time.
func (n *simNode) wall() time.Time {
	if looks := n.looks.Load(); looks != nil {
		(*looks)()
	}
	return time.Now().Add(time.Duration(n.skew.Load()))
}

// tune delays the leadership notifications from Raft, in particular while the process is paused.
func (l *life) tune(s *raft.Config) {
	notified := make(chan bool, cap(l.leaderships.notify))
	s.NotifyCh = notified
	l.node.sim.ending.Go(func() {
		for {
			select {
			case leads := <-notified:
				if !l.resumed() {
					return
				}
				pass(rand.N(20 * time.Millisecond)) // the scheduler may be late
				l.leaderships.notify <- leads
			case <-l.ctx.Done():
				return
			}
		}
	})
	if l.node.sim.c.tune != nil {
		l.node.sim.c.tune(s)
	}
}

// saved records the newest entry whose changes a snapshot may contain. This entry can be newer than the index of the
// snapshot, because the records are written while entries are applied.
func (l *life) saved(index uint64) {
	applied := l.Fingerprint().Index
	s := l.node.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fuzzy[index] = max(s.fuzzy[index], applied)
}

func (l *life) installed(index uint64) error {
	s := l.node.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, until := range s.fuzzy {
		if of >= index { // the index in the head of a snapshot can be lower than the index of the snapshot in Raft
			l.fuzzy.Store(max(l.fuzzy.Load(), until))
		}
	}
	return nil
}

// fatal handles a fatal error of a process. It may be called with the lock of the applied state held.
func (l *life) fatal(err error) {
	s := l.node.sim
	removed := errors.Is(err, ErrRemoved)
	if s.c.unexpected == nil || s.c.unexpected(l.node.id, err) {
		s.t.Errorf("%s: %v", l.node.id, err)
	}
	s.ending.Go(func() { l.crash(removed) })
}

// crash stops a process like kill -9. Actions of the process after the call have no effect.
func (l *life) crash(gone bool) {
	s := l.node.sim
	s.mu.Lock()
	if l.node.life != l {
		s.mu.Unlock()
		return
	}
	l.node.life = nil
	l.node.gone = l.node.gone || gone
	s.mu.Unlock()
	l.end() // before the copy, so that nothing is acknowledged after the copy
	l.node.disk = l.disk.copy()
	l.resume()
	s.ending.Go(l.finish)
}

// finish closes the node of a crashed process.
func (l *life) finish() {
	<-l.started
	if err := l.Close(); err != nil {
		l.node.sim.t.Errorf("%s: %v", l.node.id, err)
	}
	l.fsm.state.Lock()
	l.node.sim.leads.Add(int64(l.leaderships.epochs))
	l.fsm.state.Unlock()
}

// stop stops a process like SIGTERM.
func (l *life) stop() {
	<-l.started
	ctx, cancel := context.WithTimeout(l.ctx, 2*time.Second)
	defer cancel()
	if err := l.HandOver(ctx); err != nil {
		l.config.Logger.Debug("leadership was not handed over", "error", err)
	}
	l.crash(false)
}

// resumed blocks while the process is paused, and reports whether the process is still running.
func (l *life) resumed() bool {
	l.mu.Lock()
	paused := l.paused
	l.mu.Unlock()
	if paused != nil {
		select {
		case <-paused:
		case <-l.ctx.Done():
		}
	}
	return l.ctx.Err() == nil
}

// arrives is like resumed, for an incoming message. A process that has been paused reads the message after a delay.
func (l *life) arrives() bool {
	l.mu.Lock()
	paused := l.paused != nil
	l.mu.Unlock()
	if !l.resumed() {
		return false
	}
	if paused {
		pass(rand.N(20 * time.Millisecond))
	}
	return l.ctx.Err() == nil
}

// pause pauses the process: it neither receives nor sends messages, and does not detect the loss of leadership.
func (l *life) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused == nil {
		l.paused = make(chan struct{})
	}
}

func (l *life) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused != nil {
		close(l.paused)
		l.paused = nil
	}
}
