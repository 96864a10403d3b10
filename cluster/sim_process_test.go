package cluster

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime/debug"
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
	onWallRead  atomic.Pointer[func()] // called when its wall clock is read; optional
	process     *process               // nil while it is down; guarded by sim.mu
	gone        bool                   // the node was removed and has exited; guarded by sim.mu
}

// process is one process of a node.
type process struct {
	*Node
	node      *simNode
	disk      *disk
	wire      *wire
	ctx       context.Context // canceled at the end of the process
	end       context.CancelFunc
	started   chan struct{} // closed when Start has returned
	err       error         // error of Start
	exactFrom atomic.Uint64 // until the entry at this index is applied, the state may contain changes of later entries
	refuses   atomic.Bool   // new streams to the process are refused
	unknown   atomic.Value  // the topic, if any, about which other processes answer the process like an earlier program
	users     usersLog      // active users

	mu      sync.Mutex
	paused  chan struct{} // closed when the process is resumed; nil while it is running
	streams []net.Conn    // opened by other processes
}

// accept accepts a stream that another process has opened.
func (p *process) accept(stream net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams = append(p.streams, stream)
}

// closeStreams closes the streams that other processes have opened. The process keeps running.
func (p *process) closeStreams() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = len(p.streams)
	for _, stream := range p.streams {
		_ = stream.Close()
	}
	p.streams = nil
	return n
}

var verbose = flag.Bool("simlog", false, "write the logs of simulated nodes to standard error")

// boot starts a process.
func (n *simNode) boot() *process {
	p := &process{node: n, disk: n.disk, started: make(chan struct{})}
	processID := fmt.Sprint(rand.Uint64())
	lineage := n.recordStart(processID)
	p.ctx, p.end = context.WithCancel(context.Background())
	p.wire = newWire(p)
	clock := NewClock()
	eviction := buckets.NoEviction
	if n.sim.c.memory > 0 {
		eviction = buckets.EvictSmallestDebt
	}
	c := Config{
		Cluster: "sim", Version: "test", Advertise: n.id,
		Self:      Announcement{ID: n.id, Incarnation: n.incarnation, Boot: n.starts, Process: processID, Lineage: lineage, Host: "127.0.0.1", Port: 1},
		Bootstrap: n.bootstrap, Join: n.join, Peers: simPeers{p}, Async: n.sim.c.async, Heartbeat: n.sim.c.heartbeat(n.id),
		Table: buckets.New(buckets.Config{Clock: clock.Now, Replicated: true, Shards: max(1, n.sim.c.shards), MaxMemory: n.sim.c.memory, Eviction: eviction}),
		Clock: clock,
		Logs:  p.disk, Stable: p.disk, Snapshots: p.disk, Transport: p.wire,
		Users: &p.users, Wall: n.wall,
		Tune: p.tune, Fatal: p.fatal, Installed: p.installed, Announced: p.noteAnnounced,
	}
	if n.sim.c.logger != nil {
		c.Logger = n.sim.c.logger.With("node", n.id)
	}
	if *verbose {
		c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", n.id)
		c.RaftLogger = hclog.New(&hclog.LoggerOptions{Name: n.id, Level: hclog.Debug})
	}
	p.Node = New(c)
	p.disk.saved = p.saved
	if err := p.LoadUsers(); err != nil {
		n.sim.t.Error(err)
	}
	n.sim.mu.Lock()
	n.process = p
	n.sim.mu.Unlock()
	go func() {
		defer close(p.started)
		p.err = p.Start(p.ctx)
	}()
	return p
}

// recordStart increments the boot number on the disk, and appends the process to the lineage on the disk.
func (n *simNode) recordStart(processID string) raftstore.Lineage {
	n.sim.mu.Lock()
	defer n.sim.mu.Unlock()
	n.starts++
	n.lineage = n.lineage.WithStart(n.starts, processID)
	return n.lineage
}

func (p *process) noteAnnounced() error {
	s := p.node.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.node.process == p {
		p.node.lineage = p.node.lineage.Announced(p.node.starts)
	}
	return nil
}

// entryHold can block the flusher of a node before it submits an entry.
type entryHold struct {
	armed   atomic.Bool   // the next entry is held; false once it is
	release chan struct{} // a receive ends the block
}

// holdEntries returns a hold on the entries of the node. The flusher reads the wall clock without a lock, last before it
// submits an entry. The log clock reads it with its lock held, so a block there would also block goroutines that wait for
// the lock, which synctest.Wait does not count as blocked.
func (n *simNode) holdEntries() *entryHold {
	h := &entryHold{release: make(chan struct{})}
	onWallRead := func() {
		stack := debug.Stack()
		if bytes.Contains(stack, []byte("(*flusher).submit")) && !bytes.Contains(stack, []byte("(*logClock)")) && h.armed.Swap(false) {
			<-h.release
		}
	}
	n.onWallRead.Store(&onWallRead)
	return h
}

// wall returns the wall time.
func (n *simNode) wall() time.Time {
	if onWallRead := n.onWallRead.Load(); onWallRead != nil {
		(*onWallRead)()
	}
	return time.Now().Add(time.Duration(n.skew.Load()))
}

// tune changes the Raft settings. It delays each leadership notification from Raft: if the process is paused, until the
// process is resumed, and then by a random time.
func (p *process) tune(s *raft.Config) {
	notified := make(chan bool, cap(p.leaderships.notify))
	s.NotifyCh = notified
	p.node.sim.ending.Go(func() {
		for {
			select {
			case leads := <-notified:
				if !p.resumed() {
					return
				}
				pass(rand.N(20 * time.Millisecond)) // simulates a late scheduler
				p.leaderships.notify <- leads
			case <-p.ctx.Done():
				return
			}
		}
	})
	if p.node.sim.c.tune != nil {
		p.node.sim.c.tune(s)
	}
}

// saved records the newest entry whose changes a snapshot may contain. The index of this entry can be higher than the
// index of the snapshot, because the records are written while entries are applied.
func (p *process) saved(index uint64) {
	applied := p.Fingerprint().Index
	s := p.node.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exactFrom[index] = max(s.exactFrom[index], applied)
}

func (p *process) installed(index uint64) error {
	s := p.node.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, until := range s.exactFrom {
		if of >= index { // the index in the head of a snapshot can be lower than the index of the snapshot in Raft
			p.exactFrom.Store(max(p.exactFrom.Load(), until))
		}
	}
	return nil
}

// fatal handles a fatal error of a process. It may be called with the lock of the applied state held.
func (p *process) fatal(err error) {
	s := p.node.sim
	removed := errors.Is(err, ErrRemoved)
	if s.c.unexpected == nil || s.c.unexpected(p.node.id, err) {
		s.t.Errorf("unexpected fatal error of %s: %v", p.node.id, err)
	}
	s.ending.Go(func() { p.crash(removed) })
}

// crash stops a process like kill -9. Actions of the process after the call have no effect.
func (p *process) crash(gone bool) {
	s := p.node.sim
	s.mu.Lock()
	if p.node.process != p {
		s.mu.Unlock()
		return
	}
	p.node.process = nil
	p.node.gone = p.node.gone || gone
	s.mu.Unlock()
	p.end() // before the copy, so that nothing is acknowledged after the copy
	p.node.disk = p.disk.copy()
	p.resume()
	s.ending.Go(p.finish)
}

// finish closes the node of a crashed process.
func (p *process) finish() {
	<-p.started
	if err := p.Close(); err != nil {
		p.node.sim.t.Errorf("Close of %s returned %v", p.node.id, err)
	}
	p.fsm.state.Lock()
	p.node.sim.leads.Add(int64(p.leaderships.epochs))
	p.fsm.state.Unlock()
}

// stop stops a process like SIGTERM.
func (p *process) stop() {
	<-p.started
	ctx, cancel := context.WithTimeout(p.ctx, 2*time.Second)
	defer cancel()
	if err := p.HandOver(ctx); err != nil {
		p.config.Logger.Debug("leadership was not handed over", "error", err)
	}
	p.crash(false)
}

// resumed blocks while the process is paused, and reports whether the process is still running.
func (p *process) resumed() bool {
	p.mu.Lock()
	paused := p.paused
	p.mu.Unlock()
	if paused != nil {
		select {
		case <-paused:
		case <-p.ctx.Done():
		}
	}
	return p.ctx.Err() == nil
}

// arrives is called for an incoming message. It is like resumed, but if the process was paused, arrives blocks for a
// random time after the end of the pause, because a resumed process does not read its messages immediately.
func (p *process) arrives() bool {
	p.mu.Lock()
	paused := p.paused != nil
	p.mu.Unlock()
	if !p.resumed() {
		return false
	}
	if paused {
		pass(rand.N(20 * time.Millisecond))
	}
	return p.ctx.Err() == nil
}

// pause pauses the process: it neither receives nor sends messages, and does not detect the loss of leadership.
func (p *process) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused == nil {
		p.paused = make(chan struct{})
	}
}

func (p *process) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused != nil {
		close(p.paused)
		p.paused = nil
	}
}
