package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/topology"
)

// names returns the names in a list of name-value pairs.
func (v value) names() (names []string) {
	for i := 0; i < len(v.list); i += 2 {
		names = append(names, v.list[i].text)
	}
	return names
}

// The fields that a Sentinel of Redis 7.0 returns for each kind of instance, in the order of its replies.
const (
	instanceNames = "name ip port runid flags link-pending-commands link-refcount last-ping-sent last-ok-ping-reply last-ping-reply down-after-milliseconds "
	masterNames   = instanceNames + "info-refresh role-reported role-reported-time config-epoch num-slaves num-other-sentinels quorum failover-timeout parallel-syncs"
	replicaNames  = instanceNames + "info-refresh role-reported role-reported-time master-link-down-time master-link-status master-host master-port slave-priority slave-repl-offset replica-announced"
	sentinelNames = instanceNames + "last-hello-message voted-leader voted-leader-epoch"
)

func checkFields(t *testing.T, what string, v value, names string, want map[string]string) {
	t.Helper()
	if got := strings.Join(v.names(), " "); got != names {
		t.Errorf("%s has the fields %s, want %s", what, got, names)
	}
	for name, text := range want {
		if got, _ := v.field(name); got.text != text || got.kind != '$' {
			t.Errorf("%s: %s is %s, want %q", what, name, got, text)
		}
	}
}

// TestSentinelListener checks the commands that Redis Sentinel clients use, in both versions of the
// protocol.
func TestSentinelListener(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	p := l.nodes["a"].at(l.nodes["a"].sentinel)
	p.do("*-1\r\n", "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")
	p.do("*0\r\n", "SENTINEL", "MASTERS")
	p.do(failure(errNoMaster), "SENTINEL", "MASTER", "mymaster")
	l.lead("b")
	members := map[string]topology.Member{}
	for _, id := range l.ids {
		members[id] = l.nodes[id].member()
	}
	port := strconv.Itoa(members["b"].LeaderPort)
	for _, version := range []string{"2", "3"} {
		hello := p.ask("HELLO", version)
		if mode, _ := hello.field("mode"); mode.text != "sentinel" || slices.Contains(hello.names(), "role") {
			t.Errorf("HELLO: got %s, want mode sentinel and no role", hello)
		}
		pairs := byte('*')
		if version == "3" {
			pairs = '%'
		}
		p.do("*2\r\n$9\r\n127.0.0.1\r\n"+bulk(port), "SENTINEL", "get-master-addr-by-name", "mymaster")
		if got := p.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "other"); !got.null {
			t.Errorf("the address of an unknown master is %s, want null", got)
		}
		master := map[string]string{"name": "mymaster", "ip": "127.0.0.1", "port": port, "runid": clusterNodeID(labName, "b"), "flags": "master",
			"num-slaves": "2", "num-other-sentinels": "2", "quorum": "2", "config-epoch": "1", "role-reported": "master"}
		one := p.ask("SENTINEL", "MASTER", "mymaster")
		all := p.ask("SENTINEL", "MASTERS")
		if one.kind != pairs || len(all.list) != 1 {
			t.Fatalf("MASTER returned %s, want a reply of type %c; MASTERS returned %s, want one master", one, pairs, all)
		}
		checkFields(t, "MASTER", one, masterNames, master)
		checkFields(t, "MASTERS", all.list[0], masterNames, master)
		for _, command := range []string{"REPLICAS", "SLAVES"} {
			list := p.ask("SENTINEL", command, "mymaster").list
			for i, id := range []string{"a", "c"} {
				text := strconv.Itoa(members[id].LeaderPort)
				checkFields(t, command, list[i], replicaNames, map[string]string{"name": "127.0.0.1:" + text, "ip": "127.0.0.1", "port": text,
					"flags": "slave", "master-link-status": "ok", "master-host": "127.0.0.1", "master-port": port, "slave-repl-offset": [...]string{"10", "11"}[i]})
			}
		}
		list := p.ask("SENTINEL", "SENTINELS", "mymaster").list
		for i, id := range []string{"b", "c"} {
			checkFields(t, "SENTINELS", list[i], sentinelNames, map[string]string{"name": clusterNodeID(labName, id), "ip": "127.0.0.1",
				"port": strconv.Itoa(members[id].SentinelPort), "flags": "sentinel"})
		}
		for _, command := range []string{"MASTER", "REPLICAS", "SLAVES", "SENTINELS", "CKQUORUM"} {
			p.do(failure(errNoMaster), "SENTINEL", command, "other")
		}
		p.do("+OK 3 usable Sentinels. Quorum and failover authorization can be reached\r\n", "SENTINEL", "CKQUORUM", "mymaster")
		p.do("$40\r\n"+clusterNodeID(labName, "a")+"\r\n", "SENTINEL", "MYID")
		p.do("*2\r\n$8\r\nsentinel\r\n*1\r\n$8\r\nmymaster\r\n", "ROLE")
	}
	p.do("-ERR unknown subcommand 'NOPE'. Try SENTINEL HELP.\r\n", "SENTINEL", "NOPE")
	p.do("-ERR wrong number of arguments for 'sentinel|master' command\r\n", "SENTINEL", "MASTER")
	for _, command := range []string{"SELECT 0", "CL.THROTTLE k 1 1 1", "DEL k", "MULTI", "CLUSTER SLOTS", "CONFIG GET x", "CL.CLUSTER STATUS"} {
		p.do(unknown(words(command)[0], words(command)[1:]...), words(command)...)
	}
	l.setViewLeader("a", "")
	down := map[string]string{"flags": "s_down,master,disconnected", "ip": "127.0.0.1", "port": port}
	checkFields(t, "MASTER", p.ask("SENTINEL", "MASTER", "mymaster"), masterNames, down)
	checkFields(t, "MASTERS", p.ask("SENTINEL", "MASTERS").list[0], masterNames, down)
	if got := p.info("sentinel")["master0"]; !strings.Contains(got, "status=sdown,") {
		t.Errorf("INFO: master0 is %s, want status=sdown", got)
	}
	p.fails("NOQUORUM 3 usable Sentinels. The cluster has no leader at the moment", "SENTINEL", "CKQUORUM", "mymaster")
	p.do("*2\r\n$9\r\n127.0.0.1\r\n"+bulk(port), "SENTINEL", "get-master-addr-by-name", "mymaster")
}

// TestSentinelOfLeader checks that the leader shows unreachable replicas as down, and the offset of
// each replica.
func TestSentinelOfLeader(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b", "c")
	l.lead("b")
	l.setFollower("a", topology.Follower{Last: 4, Silent: time.Minute})
	l.setFollower("c", topology.Follower{Answers: true, Last: 8, Silent: 40 * time.Millisecond})
	p := l.nodes["b"].at(l.nodes["b"].sentinel)
	list := p.ask("SENTINEL", "REPLICAS", "mymaster").list
	for i, want := range []map[string]string{
		{"flags": "s_down,slave,disconnected", "master-link-status": "err", "master-link-down-time": "60000", "slave-repl-offset": "4"},
		{"flags": "slave", "master-link-status": "ok", "master-link-down-time": "0", "slave-repl-offset": "8"},
	} {
		checkFields(t, "REPLICAS", list[i], replicaNames, want)
	}
	checkFields(t, "MASTER", p.ask("SENTINEL", "MASTER", "mymaster"), masterNames, map[string]string{"num-slaves": "2", "flags": "master"})

	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "mymaster", SentinelAddrs: []string{p.RemoteAddr().String()}, ReplicaOnly: true,
	})
	defer func() { _ = client.Close() }()
	role, err := client.Do(t.Context(), "INFO", "replication").Text()
	if self := "node_id:c\r\n"; err != nil || !strings.Contains(role, self) {
		t.Errorf("the replica-only client got INFO %q, error %v, want node_id c and no error", role, err)
	}
}

// TestSentinelInfo checks that INFO has the section sentinel on the Sentinel port only. Tools detect a Sentinel by
// this section.
func TestSentinelInfo(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("b")
	n := l.nodes["a"]
	p := n.at(n.sentinel)
	info := p.info("everything")
	want := fmt.Sprintf("name=mymaster,status=ok,address=127.0.0.1:%d,slaves=1,sentinels=2", l.nodes["b"].member().LeaderPort)
	if info["redis_mode"] != "sentinel" || info["master0"] != want || info["sentinel_masters"] != "1" || info["role"] != "" || info["tcp_port"] != "26380" {
		t.Errorf("INFO: redis_mode, master0, sentinel_masters, role or tcp_port is wrong: %v", info)
	}
	for _, other := range []*peer{n.dial(), n.at(n.cluster), n.at(n.peers)} {
		if other.info("everything")["sentinel_masters"] != "" {
			t.Error("INFO has the section sentinel on another port")
		}
		other.fails("ERR unknown command 'SENTINEL'", "SENTINEL", "MASTERS")
	}
}

// TestGoRedisFailover changes the leader while the client library go-redis gets the address of the leader from a
// Sentinel. Commands must not fail.
func TestGoRedisFailover(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "mymaster", SentinelAddrs: []string{l.nodes["b"].sentinel.Addr().String(), l.nodes["a"].sentinel.Addr().String()}, MaxRetries: 8,
	})
	defer func() { _ = client.Close() }()
	for i, leader := range []string{"a", "b", "a"} {
		l.lead(leader)
		// The library closes its connections to the old leader, and resends the commands that have had no reply. A
		// command may therefore be charged twice.
		got, err := client.Do(t.Context(), "CL.THROTTLE", "k", 100, 1, 3600).Int64Slice()
		if err != nil || got[2] > int64(100-i) {
			t.Fatalf("with leader %s: got reply %v, error %v; want at most %d remaining, and no error", leader, got, err, 100-i)
		}
		var role []any
		if !eventually(func() bool {
			role, err = client.Do(t.Context(), "ROLE").Slice()
			return err == nil && role[0] == "master"
		}) {
			t.Errorf("with leader %s: ROLE returned %v, error %v, want master and no error", leader, role, err)
		}
	}
}
