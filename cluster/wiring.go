package cluster

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

// shared holds the parts that New passes to other parts but does not store in the Node.
type shared struct {
	state     sync.Mutex // guards the applied state, see fsm
	announced *announcements
	records   *nodeRecords
	failure   *failure
	tuner     *tuner
	keeper    *recordKeeper
}

// nodeRole implements role.
type nodeRole struct {
	*raftHandle
	*leaderships
}

// New returns a node that does not run Raft yet. It can answer some questions from other nodes. Call Start to make the
// node join or bootstrap the cluster.
func New(c Config) *Node {
	c.setDefaults()
	n := &Node{config: c, life: newLifetime(), raft: new(raftHandle)}
	s := &shared{announced: newAnnouncements(), records: newNodeRecords(), failure: &failure{report: c.Fatal}}
	n.engine = newEngine(&n.config)
	connectObserver(n, s)
	connectPeers(n, s)
	connectState(n, s)
	connectMembers(n, s)
	connectUsers(n)
	connectControl(n, s)
	connectLoops(n, s)
	return n
}

func newEngine(c *Config) *engine {
	return &engine{
		table: c.Table, clock: &logClock{Clock: c.Clock, wall: c.Wall, stable: c.Stable, log: c.Logger},
		leaderships: newLeaderships(), setting: newHeartbeatSetting(c.Heartbeat), async: c.Async, standalone: c.Peers == nil,
	}
}

// connectObserver creates the observer, which publishes views of the cluster.
func connectObserver(n *Node, s *shared) {
	c := &n.config
	s.tuner = &tuner{raft: n.raft, setting: n.setting}
	n.observer = &observer{
		cluster: c.Cluster, self: c.Self.ID, state: &s.state, raft: n.raft, leaderships: n.leaderships, announced: s.announced,
		setting: n.setting, now: n.clock.monotonic, life: n.life,
		timeout: &leaderTimeout{raft: n.raft, tuner: s.tuner, setting: n.setting, life: n.life, log: c.Logger},
	}
	n.observer.begin()
}

// connectPeers creates the client for questions to other nodes, and the parts that check which nodes may send
// messages.
func connectPeers(n *Node, s *shared) {
	c := &n.config
	n.peers = &peerClient{peers: c.Peers, members: n.observer, failure: s.failure}
	inquirer := &inquirer{view: n.observer, joinAddrs: c.Join, peers: n.peers, life: n.life}
	confirmations := newConfirmations(n.life, n.clock.monotonic, n.observer.viewMembers, inquirer.inquire)
	rejoin := newRejoinCheck(c.Transport, c.Peers == nil, n.observer.find)
	n.rejoiner = &rejoiner{
		check: rejoin, self: &c.Self, view: n.observer, setting: n.setting, peers: n.peers, failure: s.failure, life: n.life,
	}
	rejoin.ask = n.rejoiner.ask
	n.access = &access{
		view: n.observer, confirmations: confirmations, rejoin: rejoin, records: s.records,
		guard: &guard{members: n.observer, confirmations: confirmations, raft: n.raft, log: c.Logger, reported: map[error]time.Time{}},
	}
}

// connectState creates the leader and the Raft state machine.
func connectState(n *Node, s *shared) {
	c := &n.config
	n.leader = &leader{
		leaderships: n.leaderships, state: &s.state, raft: n.raft, table: n.table, clock: n.clock, setting: n.setting,
		rules: c.Rules, view: n.observer, async: c.Async, beginResult: c.BeginResult, life: n.life, log: c.Logger,
		times: &timeKeeper{clock: n.clock, state: &s.state, view: n.observer, setting: n.setting, peers: n.peers, life: n.life},
		tracker: &tracker{
			Transport: n.access.rejoin, mayHold: mayHoldFor(n.observer, n.leaderships), ended: n.life.ended(), now: n.clock.monotonic,
			acknowledged: s.records.acknowledged, check: n.access.rejoin.check, roundTrips: &roundTrips{log: c.Logger},
			timeout: n.setting.shown, progress: map[raft.ServerID]*progress{},
		},
	}
	s.keeper = &recordKeeper{
		self: c.Self.ID, records: s.records, stable: c.Stable, logs: c.Logs, raft: n.raft, leaderships: n.leaderships,
		life: n.life, log: c.Logger,
	}
	n.fsm = &fsm{
		config: c, raft: n.raft, leader: n.leader, view: n.observer, keeper: s.keeper, table: n.table, clock: n.clock,
		setting: n.setting, announced: s.announced, failure: s.failure, ended: n.life.ended(), state: &s.state,
		rules: rulesState{store: c.Rules}, users: usersState{changed: make(chan struct{}, 1)},
	}
}

// connectMembers creates the parts that bootstrap the cluster and change its members, its heartbeat and its rules.
func connectMembers(n *Node, s *shared) {
	c := &n.config
	n.agreement = &heartbeatAgreement{
		setting: n.setting, tuner: s.tuner, stable: c.Stable, applied: n.fsm.heartbeat, state: &s.state, raft: n.raft,
		leaderships: n.leaderships, view: n.observer, peers: n.peers, life: n.life, log: c.Logger,
	}
	n.members = &membership{
		self: c.Self.ID, raft: n.raft, view: n.observer, leader: n.leader, peers: n.peers, announced: s.announced,
		records: s.records, setting: n.setting, life: n.life, log: c.Logger,
	}
	n.rules = &rulesProposals{proposer: newProposer(n, "rules", errRulesUnknown), store: c.Rules, wall: c.Wall}
	n.bootstrap = &bootstrap{
		self: &c.Self, advertise: c.Advertise, initialMembers: c.Bootstrap, joinAddrs: c.Join, storeRecovery: c.StoreRecovery, recovery: c.Recovery,
		started: n.raft.started, announced: s.announced, peers: n.peers, life: n.life, log: c.Logger, participants: map[string]Announcement{},
	}
}

// connectUsers creates the parts that activate and change the users.
func connectUsers(n *Node) {
	c := &n.config
	active := &activeUsers{
		target: c.Users, stable: c.Stable, newest: n.fsm.newestUsers, changed: n.fsm.users.changed, life: n.life,
		log: c.Logger, advanced: make(chan struct{}),
	}
	n.users = &usersProposals{
		proposer: newProposer(n, "users", topology.ErrUsersUnknown), newest: n.fsm.newestUsers, active: active, log: c.Logger,
	}
}

func newProposer(n *Node, document string, unknown error) proposer {
	return proposer{
		document: document, unknown: unknown, raft: n.raft, leaderships: n.leaderships, view: n.observer, peers: n.peers,
		life: n.life, proposing: newMutex(),
	}
}

// connectControl creates the server for questions from other nodes.
func connectControl(n *Node, s *shared) {
	n.control = &control{
		self: &n.config.Self, isMember: n.observer.isMember, life: n.life, log: n.config.Logger,
		responder: &responder{
			role: nodeRole{n.raft, n.leaderships}, members: n.observer, announced: s.announced, changes: n.members,
			handshake: n.bootstrap, returns: s.keeper, logTime: n.leader.times.answer, runningHeartbeat: n.agreement.runsWith,
			propose: n.rules.answer, awaitUsers: n.users.active.await, proposeUsers: n.users.answer,
		},
	}
}

// connectLoops lists the functions that Start runs in goroutines. A standalone node does not run the functions that
// communicate with other nodes.
func connectLoops(n *Node, s *shared) {
	c := &n.config
	compactor := &compactor{fsm: n.fsm, table: n.table, raft: n.raft, tuner: s.tuner, life: n.life, log: c.Logger}
	announcer := &announcer{
		self: &c.Self, joinAddrs: c.Join, recorded: c.Announced, raft: n.raft, view: n.observer, announced: s.announced,
		agreement: n.agreement, setting: n.setting, changes: n.members, bootstrap: n.bootstrap, peers: n.peers,
		failure: s.failure, life: n.life, log: c.Logger,
	}
	n.loops = []func(){
		func() { n.clock.keepOffset(n.life.ended()) }, n.leader.run, compactor.run, s.keeper.run, n.rejoiner.run,
		announcer.recordAnnounced, n.rules.run, n.users.active.run,
	}
	if c.Peers != nil {
		watch := &leaderWatch{raft: n.raft, view: n.observer, timeout: n.observer.timeout, setting: n.setting, peers: n.peers, life: n.life}
		n.loops = append(n.loops, watch.run, announcer.run, n.agreement.keepAdopted, n.agreement.supervise)
	}
}
