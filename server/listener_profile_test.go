package server

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/topology"
)

// TestFactsOfRedis compares COMMAND INFO on the Cluster and Sentinel ports with Redis 7.0: arity,
// flags, categories and tips.
func TestFactsOfRedis(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a")
	n := l.nodes["a"]
	const shifting = "2 stale / @slow / nondeterministic_output"
	const watching = " admin / @admin @slow @dangerous / "
	f := func(p *peer, facts map[string]string) {
		t.Helper()
		for name, want := range facts {
			info := p.ask("COMMAND", "INFO", name).list[0].list
			lists := []string{info[1].text + " " + strings.Join(info[2].words(), " "), strings.Join(info[6].words(), " "), strings.Join(info[7].words(), " ")}
			if got := strings.Join(lists, " / "); got != want || info[0].text != name || info[3].int() != 0 || len(info[8].list) != 0 {
				t.Errorf("COMMAND INFO %s: got %s, want %s", name, got, want)
			}
		}
	}
	f(n.at(n.cluster), map[string]string{
		"cluster|slots": shifting, "cluster|shards": shifting, "cluster|nodes": shifting, "cluster|info": shifting,
		"cluster|myid": "2 stale / @slow / ", "cluster|keyslot": "3 stale / @slow / ", "cluster|countkeysinslot": "3 stale / @slow / ",
		"cluster|help": "2 loading stale / @slow / ", "cluster": "-2  / @slow / ", "asking": "1 fast / @fast @connection / ",
		"readonly": "1 loading stale fast / @fast @connection / ", "readwrite": "1 loading stale fast / @fast @connection / ",
	})
	f(n.at(n.sentinel), map[string]string{
		"sentinel": "-2" + watching, "sentinel|ckquorum": "3" + watching, "sentinel|get-master-addr-by-name": "3" + watching,
		"sentinel|master": "3" + watching, "sentinel|masters": "2" + watching, "sentinel|myid": "2" + watching, "sentinel|replicas": "3" + watching,
		"sentinel|sentinels": "3" + watching, "sentinel|slaves": "3" + watching, "sentinel|help": "2 loading stale / @slow / ",
	})
}

// strange is a listener whose connections have the remote address of another host.
type strange struct{ net.Listener }

type strangeConn struct{ net.Conn }

func (l strange) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return strangeConn{conn}, err
}

func (strangeConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// TestPeersAreTrusted checks that streams from other nodes need no password, are exempt from protected mode, and do not
// count toward maxclients.
func TestPeersAreTrusted(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	n := l.nodes["a"]
	ln := listen(t)
	go func() { _ = n.ServePeers(strange{ln}) }()
	admin := n.dial()
	for range 3 { // more streams than the maxclients that the next loop sets
		n.at(ln).do(":0\r\n", "EXISTS", "none")
	}
	for _, pair := range []string{"maxclients 1", "requirepass secret"} {
		admin.do("+OK\r\n", words("CONFIG SET "+pair)...)
	}
	other := n.at(ln)
	other.do(five(0, 3, 2, -1, 60), "CL.THROTTLE", "k", "2", "1", "60")
	if got := admin.info("clients"); got["connected_clients"] != "1" || got["peer_streams"] != "4" {
		t.Errorf("INFO clients: %v, want connected_clients 1 and peer_streams 4", got)
	}
	n.dial().do(failure(errMaxClients), "PING")
	for _, at := range []net.Listener{n.cluster, n.sentinel} {
		if got := n.at(at).rest(); got != failure(errMaxClients) {
			t.Errorf("a client above maxclients got %q, want errMaxClients", got)
		}
	}
	admin.do("+OK\r\n", "CONFIG", "SET", "maxclients", "100")
	for _, at := range []net.Listener{n.cluster, n.sentinel} {
		p := n.at(at)
		p.do(failure(errNoAuth), "PING")
		p.do("+OK\r\n", "AUTH", "secret")
		p.do("+PONG\r\n", "PING")
	}
	if got := admin.ask("CLIENT", "LIST", "TYPE", "replica").text; strings.Count(got, "\n") != 4 {
		t.Errorf("CLIENT LIST TYPE replica: %q, want 4 lines", got)
	}
	_ = other.Close()
	admin.await("clients", "peer_streams", 3)
}

// forwardedCommands lists the commands that a node accepts from other nodes.
const forwardedCommands = "cl.throttle cl.window cl.bucket cl.leaky cl.all cl.lease cl.lease.list cl.lease.return cl.check cl.report " +
	"cl.rules|explain cl.rules|get cl.rules|history cl.rules|list cl.rules|patch cl.rules|rollback cl.rules|set " +
	"cl.cluster|add cl.cluster|remove cl.cluster|set cl.cluster|transfer cl.backup|index " +
	"client|capa hello del exists expiretime keys object|encoding object|freq object|idletime object|refcount pexpiretime pttl randomkey scan " +
	"touch ttl type unlink wait dbsize flushall flushdb memory|usage exec multi watch"

// TestPeersForwardOnly sends every command to the peer port of the leader. Only commands that nodes forward for their
// clients may run.
func TestPeersForwardOnly(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	n := l.nodes["a"]
	var accepted []string
	for _, cmd := range n.Server.commands[onPeers].every {
		if cmd.run == nil && cmd.parse == nil { // has subcommands only
			continue
		}
		args := strings.Split(cmd.name, "|")
		for len(args) < max(cmd.arity, -cmd.arity) {
			args = append(args, "x")
		}
		if got := n.at(n.peers).ask(args...).text; got != string(errNotForwarded(cmd.name)) {
			accepted = append(accepted, cmd.name)
		}
	}
	if got := strings.Join(accepted, " "); got != forwardedCommands {
		t.Errorf("the leader accepts from other nodes the commands\n%s\nwant\n%s", got, forwardedCommands)
	}
}

// emptyCluster is a cluster whose view and status are empty.
type emptyCluster struct{ topology.Cluster }

func (emptyCluster) View() *topology.View    { return &topology.View{Changed: make(chan struct{})} }
func (emptyCluster) Status() topology.Status { return topology.Status{} }

// TestReaper_Peers checks that idle clients are closed, but that streams from other nodes and clients that wait for the
// cluster are not.
func TestReaper_Peers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options.Default()
		o.Timeout = time.Second
		store, err := options.New(o)
		if err != nil {
			t.Fatal(err)
		}
		s := New(Config{Engine: labEngine{}, Cluster: emptyCluster{}, Options: store})
		defer (&testServer{Server: s}).end()
		clients, nodes := newPipes(), newPipes()
		go func() { _ = s.Serve(clients) }()
		go func() { _ = s.ServePeers(nodes) }()
		idle, waiting, node := newPeer(t, clients.connect()), newPeer(t, clients.connect()), newPeer(t, nodes.connect())
		idle.do("+PONG\r\n", "PING")
		node.ask("HELLO")
		id := waiting.ask("CLIENT", "ID").int()
		for _, c := range s.sortedClients() {
			c.conn.activity.awaiting.Store(c.id == id)
		}
		idle.closed()
		waiting.do("+PONG\r\n", "PING")
		node.ask("HELLO")
	})
}
