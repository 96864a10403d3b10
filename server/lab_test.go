package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/server/forward"
	"github.com/throttledhq/throttled/topology"
)

// lab is a cluster of servers in this process that share a table. The test sets the deciding node, and the leader in
// the view of each node.
type lab struct {
	t     testing.TB
	clock *testClock
	table *buckets.Table
	nodes map[string]*labNode
	ids   []string
	piped bool // the listeners of the nodes are pipes
	rules *ruleset.Store

	mu        sync.Mutex
	deciding  string        // the node whose engine decides; "" for none
	term      uint64        // the current term; see decide
	gen       uint64        // Generation of the newest commit token
	held      chan struct{} // WaitCommitted blocks until this channel is closed; nil: WaitCommitted does not block
	lost      error         // the error that WaitCommitted returns
	decisions int           // calls of Decide until one that fails; negative for none
	loseAt    string        // leadership is lost before the deletion of this key; "*": before the deletion of all keys
	awaited   int
	dialled   int
	dial      func(ctx context.Context, id string) (net.Conn, error) // nil: connect
	admin     []string                                               // changes of the cluster, in order
	adminErr  error
	status    topology.Status
	followers map[string]topology.Follower // progress of nodes as reported by the leader; other nodes are up to date
	flushing  chan struct{}                // if not nil, Flush blocks until this channel is closed
	onFlush   func() error                 // if not nil, Flush returns its result
	flushes   int
	decides   concurrency
}

// labNode is a server of a lab. It implements topology.Cluster.
type labNode struct {
	*testServer
	lab                               *lab
	id                                string
	clients, cluster, sentinel, peers net.Listener
	leader                            net.Listener
	view                              atomic.Pointer[topology.View]
	viewChanged                       chan struct{} // closed when the view changes
}

// labEngine is the engine of one node. It uses the shared table, but decides only while the node is the deciding node.
type labEngine struct {
	*buckets.Table
	node *labNode
}

const labName = "lab"

// labRules are the rules of all nodes of a lab.
const labRules = `
version: 1
domain: d
limits:
  two: {when: {a: x}, allow: [2 per 1m, 3 per 1h], algorithm: fixed}
  login: {when: {b: x}, allow: 2 per 1m, charge: {status: [401]}, algorithm: fixed}
  late: {when: {c: x}, allow: 3 per 1m, consistency: async, algorithm: fixed}
  ban: {when: {e: x}, allow: 1 per 1m, algorithm: fixed, ban: {after: 4 per 1h, for: 1h}}
`

// The errors with which a node reports that it has not run a command.
const (
	notLeadingLine = "-" + forward.NotLeading + "\r\n"
	goawayLine     = "-" + forward.Goaway + "\r\n"
)

// newLab starts servers without a leader. Their timeouts are long, so that tests do not fail on busy machines. Each
// server has only one turn, so that tests detect a client that keeps its turn while it waits: all other clients are
// then blocked.
func newLab(t testing.TB, ids ...string) *lab {
	t.Helper()
	return startLab(t, false, ids)
}

// newPipedLab starts servers whose connections are pipes. Their timeouts have the default values, and are measured in
// the fake time of package synctest.
func newPipedLab(t testing.TB, ids ...string) *lab {
	t.Helper()
	return startLab(t, true, ids)
}

func startLab(t testing.TB, piped bool, ids []string) *lab {
	t.Helper()
	l := &lab{t: t, decisions: -1, clock: newTestClock(), nodes: map[string]*labNode{}, ids: ids, piped: piped, rules: newRules(t, labRules)}
	l.table = buckets.New(buckets.Config{Clock: l.clock.read, Shards: 8})
	l.status = topology.Status{Mode: "sync", Last: 12, Committed: 11, Applied: 10}
	for i, id := range ids {
		n := &labNode{lab: l, id: id, clients: l.listen(5 * i), cluster: l.listen(5*i + 1), sentinel: l.listen(5*i + 2), peers: l.listen(5*i + 3), leader: l.listen(5*i + 4)}
		l.nodes[id] = n
	}
	for _, id := range ids {
		l.nodes[id].start(t)
	}
	return l
}

// listen returns a listener of a node. The argument number must be unique. In a piped lab, the argument determines the
// port of the listener.
func (l *lab) listen(number int) net.Listener {
	l.t.Helper()
	if !l.piped {
		return listen(l.t)
	}
	p := newPipes()
	p.port = 1000 + number
	return p
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	return ln
}

func (n *labNode) start(t testing.TB) {
	t.Helper()
	n.viewChanged = make(chan struct{})
	n.view.Store(&topology.View{Cluster: labName, Self: n.id, Changed: n.viewChanged})
	o := options.Default()
	if !n.lab.piped {
		o.LeaderWait = time.Minute // the maximum
	}
	store, err := options.New(o)
	if err != nil {
		t.Fatalf("options: %v", err)
	}
	srv := New(Config{Engine: labEngine{n.lab.table, n}, Cluster: n, Options: store, Version: "test", Turns: 1, Rules: n.lab.rules, RulesLog: n})
	if !n.lab.piped {
		srv.forward.Timeouts = forward.Timeouts{Reply: patience, FormerLeader: patience}
	}
	n.testServer = &testServer{Server: srv, t: t, addr: n.clients.Addr().String(), ln: n.clients, served: make(chan error, 1)}
	go func() { n.served <- srv.Serve(n.clients) }()
	go func() { _ = srv.ServeCluster(n.cluster) }()
	go func() { _ = srv.ServeSentinel(n.sentinel) }()
	go func() { _ = srv.ServePeers(n.peers) }()
	go func() { _ = srv.ServeLeader(n.leader) }()
	t.Cleanup(n.end)
}

func portOf(addr string) int {
	_, text, err := net.SplitHostPort(addr)
	port, bad := strconv.Atoi(text)
	if err != nil || bad != nil {
		panic(addr)
	}
	return port
}

func (n *labNode) member() topology.Member {
	return topology.Member{
		ID: n.id, Raft: "127.0.0.1:" + strconv.Itoa(portOf(n.peers.Addr().String())), Voter: true, Host: "127.0.0.1",
		Port: portOf(n.addr), ClusterPort: portOf(n.cluster.Addr().String()), SentinelPort: portOf(n.sentinel.Addr().String()),
		LeaderPort: portOf(n.leader.Addr().String()),
	}
}

// at returns a new client that is connected to the given listener of the node.
func (n *labNode) at(ln net.Listener) *peer {
	n.t.Helper()
	return dial(n.t, ln)
}

// decide makes the node with the given id the deciding node. If that node did not decide before, a new term begins. If
// id is empty, no node decides, and the term does not change.
func (l *lab) decide(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deciding != id && id != "" {
		l.term++
	}
	l.deciding = id
}

// setViewLeader sets the leader in the view of a node.
func (l *lab) setViewLeader(id, leader string) { l.setView(id, leader, leader == id) }

// showTransferring sets the view of a node to the view of a leader that is transferring its leadership.
func (l *lab) showTransferring(id string) { l.setView(id, id, false) }

func (l *lab) setView(id, leader string, leading bool) {
	n := l.nodes[id]
	l.mu.Lock()
	defer l.mu.Unlock()
	view := &topology.View{Cluster: labName, Self: id, Leader: leader, Leading: leading, Term: l.term}
	for _, member := range l.ids {
		view.Members = append(view.Members, l.nodes[member].member())
	}
	old := n.viewChanged
	n.viewChanged = make(chan struct{})
	view.Changed = n.viewChanged
	n.view.Store(view)
	close(old)
}

// lead makes the engine of a node decide, and sets this node as the leader in the views of all nodes.
func (l *lab) lead(id string) {
	l.decide(id)
	for _, node := range l.ids {
		l.setViewLeader(node, id)
	}
	l.t.Helper()
	if id == "" {
		return
	}
	for _, node := range l.ids {
		srv := l.nodes[node].Server
		if !eventually(func() bool { m, _ := srv.broker.leader(); return m.id == id }) {
			l.t.Fatalf("the server of node %s was not notified that node %s is the leader", node, id)
		}
	}
}

// awaits returns the number of calls of WaitCommitted.
func (l *lab) awaits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.awaited
}

// next returns a commit token. If the node does not decide, the Generation of the token is 0.
func (e labEngine) next() limiter.CommitToken {
	l := e.node.lab
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deciding != e.node.id {
		return limiter.CommitToken{}
	}
	l.gen++
	return limiter.CommitToken{Epoch: l.term, Generation: l.gen}
}

func (e labEngine) LastWrite() limiter.CommitToken { return e.next() }

func (e labEngine) Decide(reqs []limiter.Request, out []limiter.Decision) limiter.CommitToken {
	token := e.next()
	if token.Generation == 0 || e.node.lab.interrupts() {
		for i := range out {
			out[i] = limiter.Decision{Err: limiter.ErrNotLeading}
		}
		return limiter.CommitToken{}
	}
	e.node.lab.decides.enter()
	defer e.node.lab.decides.leave()
	e.Table.Decide(reqs, out)
	return token
}

func (e labEngine) Delete(key []byte) (bool, error) {
	if !e.writes(string(key)) {
		return false, limiter.ErrNotLeading
	}
	return e.Table.Delete(key)
}

func (e labEngine) Clear() error {
	if !e.writes("*") {
		return limiter.ErrNotLeading
	}
	return e.Table.Clear()
}

// writes reports whether the node decides. If the argument equals loseAt, the node first loses leadership.
func (e labEngine) writes(what string) bool {
	l := e.node.lab
	l.mu.Lock()
	defer l.mu.Unlock()
	if what == l.loseAt {
		l.deciding = ""
	}
	return l.deciding == e.node.id
}

// leads returns limiter.ErrNotLeading unless the node decides in an epoch.
func (e labEngine) leads(epoch uint64) error {
	l := e.node.lab
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deciding != e.node.id || l.term != epoch {
		return limiter.ErrNotLeading
	}
	return nil
}

func (e labEngine) WaitCommitted(t limiter.CommitToken) error {
	l := e.node.lab
	if t.Epoch == 0 {
		return limiter.ErrNotLeading
	}
	if t.Generation == 0 {
		return e.leads(t.Epoch)
	}
	l.mu.Lock()
	held := l.held
	l.awaited++
	l.mu.Unlock()
	if held != nil {
		<-held
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

func (n *labNode) View() *topology.View { return n.view.Load() }

func (n *labNode) Status() topology.Status {
	n.lab.mu.Lock()
	defer n.lab.mu.Unlock()
	s := n.lab.status
	if !n.View().Leading {
		return s
	}
	for _, id := range n.lab.ids {
		if id == n.id {
			continue
		}
		f, known := n.lab.followers[id]
		if !known {
			f = topology.Follower{Answers: true, Last: s.Last}
		}
		f.ID = id
		s.Followers = append(s.Followers, f)
	}
	return s
}

// setFollower sets the progress of a node in the status of the leader.
func (l *lab) setFollower(id string, f topology.Follower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.followers == nil {
		l.followers = map[string]topology.Follower{}
	}
	l.followers[id] = f
}

// setStatus sets the status of all nodes.
func (l *lab) setStatus(status topology.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status = status
}

func (n *labNode) Hold() bool {
	n.lab.mu.Lock()
	defer n.lab.mu.Unlock()
	return n.lab.deciding == n.id
}

func (n *labNode) Release() {}

// flushed returns the number of calls of Flush.
func (l *lab) flushed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flushes
}

// newTerm makes the node with the given id decide in a new term, and updates only the views of the nodes in known.
func (l *lab) newTerm(id string, known ...string) {
	l.decide("")
	l.decide(id)
	for _, node := range known {
		l.setViewLeader(node, id)
	}
}

func (n *labNode) Fingerprint() topology.Fingerprint {
	return topology.Fingerprint{Index: 10, LogTime: n.lab.clock.read(), Keys: n.lab.table.Usage().Keys, Sum: 0xabc}
}

func (n *labNode) Dial(ctx context.Context, id string) (net.Conn, error) {
	n.lab.mu.Lock()
	dial := n.lab.dial
	n.lab.dialled++
	n.lab.mu.Unlock()
	if dial != nil {
		return dial(ctx, id)
	}
	return n.lab.connect(ctx, id)
}

// connect opens a stream to a node. Dial calls connect unless dialWith was called.
func (l *lab) connect(ctx context.Context, id string) (net.Conn, error) {
	to := l.nodes[id]
	if to == nil {
		return nil, errors.New("there is no node " + id)
	}
	if p, ok := to.peers.(*pipes); ok {
		return p.connect(), nil
	}
	return new(net.Dialer).DialContext(ctx, "tcp", to.peers.Addr().String())
}

// dialWith replaces the implementation of Dial.
func (l *lab) dialWith(dial func(ctx context.Context, id string) (net.Conn, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dial = dial
}

func (l *lab) change(format string, args ...any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admin = append(l.admin, fmt.Sprintf(format, args...))
	return l.adminErr
}

func (l *lab) changes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.admin
}

func (n *labNode) Add(_ context.Context, id, addr string) error {
	return n.lab.change("%s: add %s %s", n.id, id, addr)
}

func (n *labNode) Remove(_ context.Context, id string) error {
	return n.lab.change("%s: remove %s", n.id, id)
}

func (n *labNode) Transfer(_ context.Context, id string) error {
	return n.lab.change("%s: transfer %s", n.id, id)
}

func (n *labNode) SetHeartbeat(_ context.Context, d time.Duration) error {
	return n.lab.change("%s: heartbeat %s", n.id, d)
}
