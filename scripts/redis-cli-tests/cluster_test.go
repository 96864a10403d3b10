package rediscli

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCluster runs the sections in corpus/cluster with three nodes, over raw connections and
// through redis-cli.
func TestCluster(t *testing.T) {
	scripts, nodes := scriptsIn(t, "corpus/cluster"), startNodes(t)
	// The roles of the nodes are determined again for each section, because the leader may have changed.
	preparePlace := func(t testing.TB, sec *section) place {
		where := nodes.withRoles(t)
		where.prepare(t, sec)
		return where
	}
	if *update {
		rewrite(t, scripts, preparePlace)
	}
	eachSectionOf(t, scripts, everySection, inTime(func(t testing.TB, sec *section) {
		play(t, sec, preparePlace(t, sec))
	}))
	t.Run("redis-cli", func(t *testing.T) {
		eachSectionOf(t, scripts, (*section).runsInCLI, inTime(func(t testing.TB, sec *section) {
			playCLI(t, sec, preparePlace(t, sec))
		}))
	})
	t.Run("complete", func(t *testing.T) {
		where := nodes.withRoles(t)
		for _, name := range []string{"leader_cluster", "leader_sentinel"} {
			checkAllSent(t, append(scripts, corpus(t)...), commandNames(t, connect(t, place{addr: where.at(name)})))
		}
	})
}

// nodes is a cluster of three nodes. Each node has its own loopback address, so that all
// nodes can use the default ports.
type nodes struct{ network string }

var nodeIDs = []string{"n1", "n2", "n3"}

// The roles of nodes in a script. A connection that is named after a role uses the port
// for all clients. The suffixes _cluster and _sentinel select the ports for Cluster and
// Sentinel clients, and _named selects leader-port.
var (
	roles = []string{"leader", "follower", "other"}
	ports = map[string]string{"": "6380", "_cluster": "6384", "_sentinel": "26380", "_named": "6386"}
)

func (n nodes) host(id string) string { return n.network + strings.TrimPrefix(id, "n") }

// startNodes starts a cluster without certificates. The cluster runs until the test ends.
func startNodes(t testing.TB) nodes {
	t.Helper()
	n := nodes{fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(255))}
	path, dir := buildProgram(t), t.TempDir()
	var bootstrap []string
	for _, id := range nodeIDs {
		bootstrap = append(bootstrap, id+"="+n.host(id)+":6382")
	}
	var outs []<-chan string
	for _, id := range nodeIDs {
		outs = append(outs, lines(t, exec.Command(path, "--bind", n.host(id), "--dir", dir, "--data-dir", filepath.Join(dir, id),
			"--cluster-id", "script", "--node-id", id, "--raft-addr", n.host(id)+":6382", "--raft-insecure", "yes",
			"--raft-heartbeat", "1000", // a busy machine must not cause an election
			"--bootstrap", strings.Join(bootstrap, " "))))
	}
	for _, out := range outs {
		awaitLine(t, out, regexp.MustCompile(`msg=ready `))
	}
	return n
}

var leads = regexp.MustCompile(`(n\d) raft=\S+ role=leader`)

// leader waits until all nodes report the same leader and the ports of all nodes, and until
// the leader is in contact with the other nodes. It returns the id of the leader.
func (n nodes) leader(t testing.TB) string {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(patience)
	for {
		leaders, err := n.askLeaders()
		if len(leaders) == 1 && err == nil {
			return leaders[0]
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("the nodes do not agree on a leader: they report %q (error %v)", leaders, err)
		}
	}
}

// askLeaders returns the distinct leaders that the nodes report.
func (n nodes) askLeaders() (list []string, err error) {
	for _, id := range nodeIDs {
		w, err := dial(net.JoinHostPort(n.host(id), ports[""]))
		if err != nil {
			return nil, err
		}
		answer, err := w.ask("CL.CLUSTER NODES")
		_ = w.conn.Close() // the reply has been read
		if err != nil {
			return nil, err
		}
		m := leads.FindStringSubmatch(answer)
		if m == nil || strings.Count(answer, "sentinel-port=") != len(nodeIDs) {
			return nil, fmt.Errorf("%s replies %s", id, answer)
		}
		if id == m[1] && strings.Count(answer, "answers=yes") != len(nodeIDs)-1 {
			return nil, fmt.Errorf("%s is not in contact with all nodes: %s", id, answer)
		}
		list = append(list, m[1])
	}
	return slices.Compact(list), nil
}

// withRoles returns the cluster as a place to run a section, with the current roles of the
// nodes. Scripts use the variables <leader> for a name, <leader_host> for an address, and
// so on.
func (n nodes) withRoles(t testing.TB) place {
	t.Helper()
	leader := n.leader(t)
	ids := append([]string{leader}, slices.DeleteFunc(slices.Clone(nodeIDs), func(id string) bool { return id == leader })...)
	where := place{named: map[string]string{}, vars: variables{"network": n.network}}
	for i, role := range roles {
		host := n.host(ids[i])
		maps.Copy(where.vars, variables{role: ids[i], role + "_host": host})
		for suffix, port := range ports {
			where.named[role+suffix] = net.JoinHostPort(host, port)
		}
	}
	where.addr = where.named["leader"]
	return where
}
