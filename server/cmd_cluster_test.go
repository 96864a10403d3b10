package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/topology"
)

// TestClusterListener checks the CLUSTER commands on the Redis Cluster port of a follower.
func TestClusterListener(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("b")
	a, b, c := l.nodes["a"].member(), l.nodes["b"].member(), l.nodes["c"].member()
	ids := map[string]string{}
	for _, id := range l.ids {
		ids[id] = clusterNodeID(labName, id)
	}
	p := l.nodes["a"].at(l.nodes["a"].cluster)
	node := func(m *topology.Member) string {
		return fmt.Sprintf("*4\r\n$9\r\n127.0.0.1\r\n:%d\r\n$40\r\n%s\r\n*0\r\n", m.ClusterPort, ids[m.ID])
	}
	slots := "*1\r\n*5\r\n:0\r\n:16383\r\n" + node(&b) + node(&a) + node(&c)
	p.do(slots, "CLUSTER", "SLOTS")
	p.do("$40\r\n"+ids["a"]+"\r\n", "cluster", "myid")
	p.do(":12182\r\n", "CLUSTER", "KEYSLOT", "foo")
	p.do(failure(errSlotKeys), "CLUSTER", "COUNTKEYSINSLOT", "1")
	p.do(failure(errSlot), "CLUSTER", "COUNTKEYSINSLOT", "16384")
	p.do(failure(errSlot), "CLUSTER", "COUNTKEYSINSLOT", "-1")
	p.do(failure(errNotInteger), "CLUSTER", "COUNTKEYSINSLOT", "x")
	p.do("-ERR unknown subcommand 'NOPE'. Try CLUSTER HELP.\r\n", "CLUSTER", "NOPE")
	for _, command := range []string{"READONLY", "READWRITE", "ASKING"} {
		p.do("+OK\r\n", command)
	}
	p.do("+OK\r\n", "SELECT", "0")
	p.do("-ERR SELECT is not allowed in cluster mode\r\n", "SELECT", "1")

	shard := p.ask("CLUSTER", "SHARDS").list[0]
	if got, _ := shard.field("slots"); got.String() != "*[:\"0\" :\"16383\"]" {
		t.Errorf("CLUSTER SHARDS: slots are %s, want 0 to 16383", got)
	}
	nodes, _ := shard.field("nodes")
	for i, m := range []topology.Member{b, a, c} {
		for name, want := range map[string]string{"id": ids[m.ID], "port": fmt.Sprint(m.ClusterPort), "ip": m.Host, "endpoint": m.Host,
			"role": [...]string{"master", "replica", "replica"}[i], "replication-offset": [...]string{"11", "10", "11"}[i], "health": "online"} {
			if got, _ := nodes.list[i].field(name); got.text != want {
				t.Errorf("CLUSTER SHARDS, node %s: %s is %s, want %s", m.ID, name, got, want)
			}
		}
	}
	line := func(m *topology.Member, flags, master, slots string) string {
		return fmt.Sprintf("%s 127.0.0.1:%d@%d %s %s 0 0 1 connected%s\n", ids[m.ID], m.ClusterPort, portOf(m.Raft), flags, master, slots)
	}
	if got, want := p.ask("CLUSTER", "NODES").text, line(&b, "master", "-", " 0-16383")+line(&a, "myself,slave", ids["b"], "")+line(&c, "slave", ids["b"], ""); got != want {
		t.Errorf("CLUSTER NODES: %q, want %q", got, want)
	}
	if got := p.ask("CLUSTER", "INFO").text; !strings.Contains(got, "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\n") || !strings.Contains(got, "cluster_known_nodes:3\r\ncluster_size:1\r\ncluster_current_epoch:1\r\n") {
		t.Errorf("CLUSTER INFO: got %q, want state ok, 16384 slots, 3 nodes, size 1 and epoch 1", got)
	}
	if mode, enabled := p.info("server")["redis_mode"], p.info("cluster")["cluster_enabled"]; mode != "cluster" || enabled != "1" {
		t.Errorf("redis_mode is %s, want cluster; cluster_enabled is %s, want 1", mode, enabled)
	}
	if hello := p.ask("HELLO", "3"); !strings.Contains(hello.String(), `"mode" $"cluster" $"role" $"replica"`) {
		t.Errorf("HELLO: got %s, want mode cluster and role replica", hello)
	}
	p.do(strings.ReplaceAll(slots, "*0\r\n", "%0\r\n"), "CLUSTER", "SLOTS")
}

// TestClusterListenerOfLeader checks that the leader shows unreachable nodes as failed, and the
// replication offset of each node.
func TestClusterListenerOfLeader(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("b")
	l.setFollower("a", topology.Follower{Last: 4, Silent: time.Minute})
	l.setFollower("c", topology.Follower{Answers: true, Last: 8})
	p := l.nodes["b"].at(l.nodes["b"].cluster)
	nodes, _ := p.ask("CLUSTER", "SHARDS").list[0].field("nodes")
	for i, want := range []string{"b 10 online", "a 4 fail", "c 8 online"} {
		id, _ := nodes.list[i].field("id")
		offset, _ := nodes.list[i].field("replication-offset")
		health, _ := nodes.list[i].field("health")
		if got := offset.text + " " + health.text; id.text != clusterNodeID(labName, want[:1]) || got != want[2:] {
			t.Errorf("CLUSTER SHARDS: node %s has offset and health %s, want %s, or the nodes are in the wrong order", id, got, want)
		}
	}
	var got []string
	for line := range strings.Lines(p.ask("CLUSTER", "NODES").text) {
		fields := strings.Fields(line)
		got = append(got, fields[2]+" "+fields[7])
	}
	if want := []string{"myself,master connected", "slave,fail disconnected", "slave connected"}; !slices.Equal(got, want) {
		t.Errorf("CLUSTER NODES: %q, want %q", got, want)
	}
	slots := p.ask("CLUSTER", "SLOTS").list[0].list
	if last := slots[len(slots)-1].list; len(slots) != 4 || last[2].text != clusterNodeID(labName, "c") {
		t.Errorf("CLUSTER SLOTS: got %s, want only the nodes b and c", slots)
	}
}

// TestNotAllAreShown checks that the replies of CLUSTER omit nodes without an announced client address.
func TestNotAllAreShown(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	p := l.nodes["a"].at(l.nodes["a"].cluster)
	empty := func() {
		t.Helper()
		p.do("*0\r\n", "CLUSTER", "SLOTS")
		p.do("*0\r\n", "CLUSTER", "SHARDS")
		p.do("$0\r\n\r\n", "CLUSTER", "NODES")
		if got := p.ask("CLUSTER", "INFO").text; !strings.Contains(got, "cluster_state:fail\r\ncluster_slots_assigned:0\r\n") {
			t.Errorf("CLUSTER INFO: got %q, want state fail and 0 slots", got)
		}
	}
	empty()
	l.lead("b")
	view := *l.nodes["a"].View()
	view.Members = []topology.Member{l.nodes["a"].member(), {ID: "b", Raft: "x:1", Voter: true}}
	l.nodes["a"].view.Store(&view)
	empty()
	p.do(five(0, 3, 2, -1, 60), "CL.THROTTLE", "k", "2", "1", "60") // forwarded, since the leader has no address to redirect to
	view.Members[1] = l.nodes["b"].member()
	view.Members[0].Host = ""
	l.nodes["a"].view.Store(&view)
	if got := p.ask("CLUSTER", "SLOTS").list[0]; len(got.list) != 3 {
		t.Errorf("CLUSTER SLOTS: got %s, want only node b", got)
	}
	l.setViewLeader("a", "") // the last leader is still shown, but the cluster is not ready
	if got := p.ask("CLUSTER", "SLOTS").list[0]; len(got.list) != 4 || got.list[2].list[1].int() != int64(l.nodes["b"].member().ClusterPort) {
		t.Errorf("CLUSTER SLOTS: got %s, want two nodes with node b first", got)
	}
	if got := p.ask("CLUSTER", "INFO").text; !strings.Contains(got, "cluster_state:fail\r\ncluster_slots_assigned:16384\r\n") {
		t.Errorf("CLUSTER INFO: got %q, want state fail and 16384 slots", got)
	}
}

// TestMoved checks that a follower redirects clients of Redis Cluster to the leader, with the slot
// of the first key.
func TestMoved(t *testing.T) { synctest.Test(t, testMoved) }

func testMoved(t *testing.T) {
	l := newPipedLab(t, "a", "b")
	l.lead("b")
	p := l.nodes["a"].at(l.nodes["a"].cluster)
	moved := func(slot int) string {
		return fmt.Sprintf("-MOVED %d 127.0.0.1:%d\r\n", slot, l.nodes["b"].member().ClusterPort)
	}
	p.do(moved(12182), "CL.THROTTLE", "foo", "2", "1", "60")
	p.do(moved(5061), "CL.ALL", "1", "WINDOW", "x{bar}y", "1", "60", "THROTTLE", "foo", "2", "1", "60")
	p.do(moved(12182), "DEL", "foo", "bar")
	p.do(moved(12182), "OBJECT", "ENCODING", "foo")
	p.do(moved(12182), "WATCH", "foo")
	p.send(throttle("foo") + ping + request("DBSIZE") + throttle("bar"))
	p.expect(moved(12182) + "+PONG\r\n:0\r\n" + moved(5061))
	p.do(":0\r\n", "DBSIZE")
	p.do("+OK\r\n", "FLUSHALL")
	p.do("*2\r\n$1\r\n0\r\n*0\r\n", "SCAN", "0")
	p.do("+OK\r\n", "MULTI")
	p.do(moved(12182), "TTL", "foo")
	p.do(failure(errExecAbort), "EXEC")

	at := l.nodes["b"].at(l.nodes["b"].cluster) // on the leader, the keys of a command may be in different slots
	at.do(":0\r\n", "DEL", "foo", "bar")
	at.do("+OK\r\n", "MULTI")
	at.do("+QUEUED\r\n", "TTL", "foo")
	l.decide("a")
	l.setViewLeader("b", "a")
	at.do(fmt.Sprintf("-MOVED 12182 127.0.0.1:%d\r\n", l.nodes["a"].member().ClusterPort), "EXEC")

	l.lead("")
	p.do(failure(errClusterDown), "CL.THROTTLE", "foo", "2", "1", "60")
	p.do("+OK\r\n", "MULTI")
	p.do("+QUEUED\r\n", "TTL", "foo")
	p.do(failure(errClusterDown), "EXEC")
	p.send(throttle("foo"))
	if !eventually(func() bool { return l.nodes["a"].forward.Retries.Load() > 20 }) {
		t.Error("the command does not wait for a leader")
	}
	l.lead("b")
	p.expect(moved(12182))
}

// TestMovedTransaction_HandOver queues commands during a leadership transfer. EXEC must wait for the next leader.
func TestMovedTransaction_HandOver(t *testing.T) { synctest.Test(t, testMovedTransactionHandOver) }

func testMovedTransactionHandOver(t *testing.T) {
	l := newPipedLab(t, "a", "b")
	for next, want := range map[string]string{
		"a": "*1\r\n" + five(0, 3, 2, -1, 60), // the transfer failed
		"b": fmt.Sprintf("-MOVED 12182 127.0.0.1:%d\r\n", l.nodes["b"].member().ClusterPort),
	} {
		l.lead("a")
		p := l.nodes["a"].at(l.nodes["a"].cluster)
		p.do("+OK\r\n", "FLUSHALL")
		p.do("+OK\r\n", "MULTI")
		l.decide("")
		l.showTransferring("a")
		p.do("+QUEUED\r\n", "CL.THROTTLE", "foo", "2", "1", "60")
		p.send(request("EXEC"))
		synctest.Wait()
		l.lead(next)
		p.expect(want)
	}
}

// TestMovedTransaction changes the leader between MULTI and EXEC. EXEC must redirect the client to the new leader.
func TestMovedTransaction(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	p := l.nodes["a"].at(l.nodes["a"].cluster)
	p.do("+OK\r\n", "MULTI")
	p.do("+QUEUED\r\n", "PING")
	p.do("+QUEUED\r\n", "TTL", "foo")
	l.lead("b")
	p.do(fmt.Sprintf("-MOVED 12182 127.0.0.1:%d\r\n", l.nodes["b"].member().ClusterPort), "EXEC")
	p.do("+PONG\r\n", "PING")
}

// TestGoRedisCluster changes the leader while the client library go-redis is in use. No call may fail.
func TestGoRedisCluster(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("a")
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{l.nodes["c"].cluster.Addr().String()}, MaxRetries: 8})
	defer func() { _ = client.Close() }()
	ctx := t.Context()
	for i, leader := range []string{"a", "b", "c", "a"} {
		l.lead(leader)
		for k := range 20 {
			got, err := client.Do(ctx, "CL.THROTTLE", fmt.Sprint("key", k), 100, 1, 3600).Int64Slice()
			if err != nil || got[2] != int64(100-i) {
				t.Fatalf("with leader %s: got reply %v, error %v, want one remaining unit less than with the previous leader, and no error", leader, got, err)
			}
		}
		pipe := client.TxPipeline()
		ttl := pipe.TTL(ctx, "key1")
		if _, err := pipe.Exec(ctx); err != nil || ttl.Val() <= 0 {
			t.Errorf("a transaction: got TTL %v, error %v, want a positive TTL and no error", ttl.Val(), err)
		}
	}
	if err := client.Ping(ctx).Err(); err != nil {
		t.Error(err)
	}
}

// TestStandaloneHasNoOtherListeners checks that a standalone server refuses to serve the cluster ports
// and commands.
func TestStandaloneHasNoOtherListeners(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for name, serve := range map[string]func() error{
		"cluster":  func() error { return s.ServeCluster(listen(t)) },
		"sentinel": func() error { return s.ServeSentinel(listen(t)) },
		"peers":    func() error { return s.ServePeers(listen(t)) },
	} {
		if err := serve(); !errors.Is(err, errNotClustered) {
			t.Errorf("port %s of a standalone server: got error %v, want errNotClustered", name, err)
		}
	}
	p := s.dial()
	p.do(failure(errNoCluster), "CLUSTER", "SLOTS")
	p.do(failure(errNoCluster), "READONLY")
	l := newLab(t, "a")
	p = l.nodes["a"].dial() // on the port for all clients, a node of a cluster also refuses CLUSTER
	p.do(failure(errNoCluster), "CLUSTER", "INFO")
	p.do(failure(errDBIndex), "SELECT", "1")
	if got := p.info("cluster")["cluster_enabled"]; got != "0" {
		t.Errorf("cluster_enabled is %s, want 0", got)
	}
}
