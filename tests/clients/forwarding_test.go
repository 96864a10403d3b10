package clienttests

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestForwarding_Libraries checks that a follower behaves like a standalone server for all
// libraries. It forwards their commands to the leader.
func TestForwarding_Libraries(t *testing.T) {
	c := startTrio(t, patientBeat)
	id := c.followers(t)[0]
	follower := c.nodes[id]
	eachLibrary(t, func(t *testing.T, lib library) {
		s := settings{password: trioPassword}
		b := &bench{library: lib, settings: s, client: mustOpen(t, lib, follower.addr, s), server: follower}
		follower.ask(t, "FLUSHALL")
		for _, behaviour := range behaviours {
			t.Run(behaviour.name, func(t *testing.T) { behaviour.test(t, b) })
		}
	})
	if carried, err := strconv.Atoi(follower.info(t, "forwarded_commands")); err != nil || carried < 1000 {
		t.Errorf("the node has forwarded %d commands, want at least 1000; error: %v", carried, err)
	}
	if leader := c.awaitLeader(t); leader == id {
		t.Errorf("the follower %s has become the leader", id)
	}
}

// TestForwarding_OneLimit checks that a key has one limit across all nodes.
func TestForwarding_OneLimit(t *testing.T) {
	const limit = 30
	c := startTrio(t, patientBeat)
	clients := map[string]*redis.Client{}
	for _, id := range trioIDs {
		clients[id] = newGoRedis(t, &redis.Options{Addr: c.at(id, portForAll), Password: trioPassword})
	}
	for i := range limit + 10 {
		id := trioIDs[i%len(trioIDs)]
		d, err := numbers(goRedisReply(clients[id].Do(t.Context(), "CL.THROTTLE", "shared", limit-1, 1, hour)))
		if want := int64(max(0, limit-1-i)); err != nil || d.limited() != (i >= limit) || d.remaining() != want {
			t.Errorf("call %d, through %s: got %v, error %v; want %d remaining", i, id, d, err, want)
		}
	}
}
