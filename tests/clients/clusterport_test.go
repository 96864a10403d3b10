package clienttests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestClusterPort tests the port for Redis Cluster clients, which reports one shard whose
// master is the leader.
func TestClusterPort(t *testing.T) {
	c := startTrio(t, patientBeat)
	for _, test := range []struct {
		name string
		test func(*testing.T, *trio)
	}{
		{"slots and shards", testClusterTopology},
		{"moved", testMoved},
		{"keys by COMMAND", testClusterKeys},
		{"pipelines", testClusterPipelines},
		{"redis-cli", testRedisCLICluster},
		{"the leader changes", testClusterHandOver},
	} {
		t.Run(test.name, func(t *testing.T) { test.test(t, c) })
	}
}

// openGoRedisCluster opens a client that is configured with the addresses of all nodes. The first
// address is that of a follower.
func openGoRedisCluster(t *testing.T, c *trio) *redis.ClusterClient {
	t.Helper()
	client := newGoRedisCluster(c, c.followers(t)[0])
	t.Cleanup(func() { _ = client.Close() }) // no call is in progress
	return client
}

func testClusterTopology(t *testing.T, c *trio) {
	want := []string{c.at(c.awaitLeader(t), portForCluster)}
	for _, id := range c.followers(t) {
		want = append(want, c.at(id, portForCluster))
	}
	for _, id := range trioIDs {
		client := newGoRedis(t, &redis.Options{Addr: c.at(id, portForCluster), Password: trioPassword})
		//lint:ignore SA1019 current clients send CLUSTER SLOTS
		slots, err := client.ClusterSlots(t.Context()).Result() //nolint:staticcheck // current clients send CLUSTER SLOTS
		if err != nil || len(slots) != 1 || slots[0].Start != 0 || slots[0].End != 16383 {
			t.Fatalf("%s: got the slots %v, want one range from 0 to 16383; error %v", id, slots, err)
		}
		var got []string
		for _, n := range slots[0].Nodes {
			got = append(got, n.Addr)
		}
		if got[0] != want[0] || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: the nodes are %v, want %v", id, got, want)
		}
		checkShards(t, client, slots[0].Nodes)
		info := client.ClusterInfo(t.Context())
		checkReply(t, info, strings.Contains(info.Val(), "cluster_state:ok\r\n"))
	}
}

// checkShards checks that CLUSTER SHARDS returns the nodes of CLUSTER SLOTS.
func checkShards(t *testing.T, client *redis.Client, nodes []redis.ClusterNode) {
	t.Helper()
	shards, err := client.ClusterShards(t.Context()).Result()
	if err != nil || len(shards) != 1 || !slices.Equal(shards[0].Slots, []redis.SlotRange{{Start: 0, End: 16383}}) {
		t.Fatalf("got the shards %+v, want one with the slots 0 to 16383; error %v", shards, err)
	}
	for i, n := range shards[0].Nodes {
		role := "replica"
		if i == 0 {
			role = "master"
		}
		if n.ID != nodes[i].ID || fmt.Sprintf("%s:%d", n.Endpoint, n.Port) != nodes[i].Addr || n.Role != role || n.Health != "online" {
			t.Errorf("CLUSTER SHARDS: node %d is %+v; want health online, role master for node 0 and replica for the others, and the id and the address of %+v", i, n, nodes[i])
		}
	}
}

// testMoved checks that a follower replies with MOVED, the slot of the key and the address of the
// leader.
func testMoved(t *testing.T, c *trio) {
	leader := c.at(c.awaitLeader(t), portForCluster)
	for _, id := range c.followers(t) {
		client := newGoRedis(t, &redis.Options{Addr: c.at(id, portForCluster), Password: trioPassword})
		for key, slot := range map[string]int{"123456789": 12739, "foo": 12182, "user:{foo}:1": 12182, "{}foo": 9500} {
			if real := client.ClusterKeySlot(t.Context(), key); real.Val() != int64(slot) {
				t.Errorf("the slot of a key is %v, want %d", real, slot)
			}
			for _, args := range [][]any{
				{"CL.THROTTLE", key, 1, 1, 60}, {"CL.WINDOW", key, 1, 60}, {"DEL", key}, {"TTL", key},
				{"CL.ALL", 1, "THROTTLE", key, 1, 1, 60, "LEAKY", "other", 1, 1, 60},
			} {
				err := client.Do(t.Context(), args...).Err()
				if want := fmt.Sprintf("MOVED %d %s", slot, leader); err == nil || err.Error() != want {
					t.Errorf("%s: %v: got the error %v, want %s", id, args, err, want)
				}
			}
		}
	}
}

// testClusterKeys calls commands with keys at different positions, and with keys of many slots.
func testClusterKeys(t *testing.T, c *trio) {
	client := openGoRedisCluster(t, c)
	infos, err := client.Command(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cl.throttle", "cl.window", "cl.bucket", "cl.leaky"} {
		if info := infos[name]; info == nil || info.FirstKeyPos != 1 || info.LastKeyPos != 1 {
			t.Errorf("COMMAND: the description of %s is %+v, want 1 as the position of the first and of the last key", name, info)
		}
	}
	for i := range 50 {
		key := fmt.Sprint("key:", i)
		for _, args := range [][]any{
			{"CL.THROTTLE", key, 1, 1, 3600},
			{"CL.WINDOW", key + ":w", 2, 3600},
			{"CL.BUCKET", key + ":b", 2, 1, 3600},
			{"CL.ALL", 1, "THROTTLE", key, 1, 1, 3600, "BUCKET", key + ":b", 2, 1, 3600},
		} {
			if v, err := client.Do(t.Context(), args...).Slice(); err != nil || v[0] != int64(0) {
				t.Fatalf("%v: got %v, want an admission; error %v", args, v, err)
			}
		}
	}
	deleted := client.Del(t.Context(), "key:1", "key:2", "key:3")
	checkReply(t, deleted, deleted.Val() == 3)
}

// testClusterPipelines sends one pipeline with many keys, one repeated key, and invalid commands.
func testClusterPipelines(t *testing.T, c *trio) {
	const calls = 100
	client := openGoRedisCluster(t, c)
	p := client.Pipeline()
	var same, many, wrong []*redis.Cmd
	for i := range calls {
		same = append(same, p.Do(t.Context(), "CL.THROTTLE", "piped", calls-1, 1, 3600))
		many = append(many, p.Do(t.Context(), "CL.THROTTLE", fmt.Sprint("piped:", i), 0, 1, 3600))
		wrong = append(wrong, p.Do(t.Context(), "CL.THROTTLE", "piped", "x", 1, 3600))
	}
	_, _ = p.Exec(t.Context()) // the error is also returned by a command
	for i := range calls {
		d, err := numbers(goRedisReply(same[i]))
		if err != nil || d.limited() || d.remaining() != int64(calls-1-i) {
			t.Errorf("charge %d of one key: got %v, error %v; want an admission that leaves one unit less than the previous one", i, d, err)
		}
		if d, err := numbers(goRedisReply(many[i])); err != nil || d.limited() {
			t.Errorf("key %d: got %v, want an admission; error %v", i, d, err)
		}
		if err := wrong[i].Err(); err == nil || !strings.Contains(err.Error(), "must be a 64-bit integer") {
			t.Errorf("invalid command %d: got the error %v, want one about a 64-bit integer", i, err)
		}
	}
	tx := client.TxPipeline()
	first, second := tx.Do(t.Context(), "CL.THROTTLE", "{tx}:1", 0, 1, 3600), tx.Do(t.Context(), "CL.THROTTLE", "{tx}:2", 0, 1, 3600)
	if _, err := tx.Exec(t.Context()); err != nil || first.Err() != nil || second.Err() != nil {
		t.Errorf("transaction: error %v, replies %v and %v; want no errors", err, first, second)
	}
}

func testRedisCLICluster(t *testing.T, c *trio) {
	path := tool(t, "redis-cli", "redis-tools")
	for i, id := range trioIDs {
		at := []string{"--no-auth-warning", "-a", trioPassword, "-h", c.host(id), "-p", portForCluster}
		got := runTool(t, "", path, append(at, "-c", "CL.THROTTLE", "by-cli", "2", "1", hour)...)
		if lines := strings.Fields(got.out); got.code != 0 || len(lines) != 5 || lines[0] != "0" || lines[2] != fmt.Sprint(2-i) {
			t.Errorf("redis-cli with the address of %s: got %+v, want an admission that leaves one unit less than the previous one", id, got)
		}
	}
	got := runTool(t, "", path, "--no-auth-warning", "-a", trioPassword, "--cluster", "check", c.at("n1", portForCluster))
	for _, want := range []string{"[OK] All nodes agree about slots configuration.", "[OK] All 16384 slots covered.", "2 additional replica(s)"} {
		if got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("redis-cli --cluster check: no %q in %+v", want, got)
		}
	}
}

// testClusterHandOver transfers the leadership to a follower. A connection to the old leader stays
// open and is redirected, and a client finds the new leader.
func testClusterHandOver(t *testing.T, c *trio) {
	client := openGoRedisCluster(t, c)
	before, to := c.awaitLeader(t), c.followers(t)[1]
	conn := dialRedigo(t, c.at(before, portForCluster))
	take := func(want int64) {
		t.Helper()
		d, err := numbers(goRedisReply(client.Do(t.Context(), "CL.THROTTLE", "handed over", 1, 1, 3600)))
		if err != nil || d.limited() || d.remaining() != want {
			t.Errorf("got %v, error %v; want %d remaining", d, err, want)
		}
	}
	take(1)
	c.transfer(t, to)
	if v, err := conn.Do("TTL", "foo"); err == nil || err.Error() != "MOVED 12182 "+c.at(to, portForCluster) {
		t.Errorf("connection to the old leader %s: got %v, error %v; want MOVED to the new leader", before, v, err)
	}
	take(0)
}
