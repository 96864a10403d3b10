package clienttests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func newSentinel(t *testing.T, c *trio, id string) *redis.SentinelClient {
	t.Helper()
	s := redis.NewSentinelClient(&redis.Options{Addr: c.at(id, portForSentinel), Password: trioPassword})
	t.Cleanup(func() { _ = s.Close() }) // no call is in progress
	return s
}

// addresses returns the addresses of the nodes in a Sentinel reply.
func addresses(list []map[string]string) (at []string) {
	for _, m := range list {
		at = append(at, net.JoinHostPort(m["ip"], m["port"]))
	}
	slices.Sort(at)
	return at
}

// TestSentinelPort tests the port for Redis Sentinel clients: each node returns the leader and the
// other nodes.
func TestSentinelPort(t *testing.T) {
	c := startTrio(t, patientBeat)
	leader, followers := c.awaitLeader(t), []string{}
	for _, id := range c.followers(t) {
		followers = append(followers, c.at(id, portForLeader))
	}
	for _, id := range trioIDs {
		s := newSentinel(t, c, id)
		addr := s.GetMasterAddrByName(t.Context(), trioMaster)
		checkReply(t, addr, slices.Equal(addr.Val(), []string{c.host(leader), portForLeader}))
		master := s.Master(t.Context(), trioMaster)
		checkReply(t, master, master.Val()["flags"] == "master" && master.Val()["num-slaves"] == "2" && master.Val()["num-other-sentinels"] == "2")
		replicas := s.Replicas(t.Context(), trioMaster)
		checkReply(t, replicas, slices.Equal(addresses(replicas.Val()), followers))
		others := s.Sentinels(t.Context(), trioMaster)
		checkReply(t, others, slices.Equal(addresses(others.Val()), slices.Sorted(slices.Values(c.all(id, portForSentinel)[1:]))))
		quorum := s.CkQuorum(t.Context(), trioMaster)
		checkReply(t, quorum, strings.HasPrefix(quorum.Val(), "OK 3 usable Sentinels."))
		masters := s.Masters(t.Context())
		checkReply(t, masters, len(masters.Val()) == 1)
		if err := s.GetMasterAddrByName(t.Context(), "stranger").Err(); err != redis.Nil {
			t.Errorf("address of an unknown master: got the error %v, want redis.Nil", err)
		}
		if err := s.Master(t.Context(), "stranger").Err(); err == nil || err.Error() != "ERR No such master with that name" {
			t.Errorf("state of an unknown master: got the error %v, want ERR No such master with that name", err)
		}
	}
}

// TestSentinelPort_SwitchMaster checks that each node sends its subscribers one message for each
// change of the leader, planned or unplanned. The message names the old and the new leader.
func TestSentinelPort_SwitchMaster(t *testing.T) {
	c := startTrio(t, usualBeat)
	subs := map[string]<-chan *redis.Message{}
	for _, id := range trioIDs {
		sub := newSentinel(t, c, id).Subscribe(t.Context(), "+switch-master")
		t.Cleanup(func() { _ = sub.Close() }) // its node may be down
		if _, err := sub.ReceiveTimeout(t.Context(), patience); err != nil {
			t.Fatal(err)
		}
		subs[id] = sub.Channel()
	}
	first := c.awaitLeader(t)
	second := c.followers(t)[0]
	c.transfer(t, second)
	checkSwitch(t, c, subs, first, second)
	c.kill(t, second)
	delete(subs, second)
	checkSwitch(t, c, subs, second, c.awaitLeader(t))
}

// checkSwitch checks that all subscribers receive a message about a change of the leader.
func checkSwitch(t *testing.T, c *trio, subs map[string]<-chan *redis.Message, from, to string) {
	t.Helper()
	want := fmt.Sprintf("%s %s %s %s %s", trioMaster, c.host(from), portForLeader, c.host(to), portForLeader)
	for _, id := range slices.Sorted(maps.Keys(subs)) {
		select {
		case m := <-subs[id]:
			if m.Payload != want {
				t.Errorf("%s sends %q, want %q", id, m.Payload, want)
			}
		case <-time.After(patience):
			t.Fatalf("%s: no message after %v", id, patience)
		}
	}
}

// TestSentinelPort_LeaderKilled checks that the other nodes flag a killed leader as down
// when its connection closes, long before its heartbeats time out. The heartbeat is so long
// that it does not time out during the test, even on a busy machine.
func TestSentinelPort_LeaderKilled(t *testing.T) {
	const heartbeat = 5 * time.Second
	// The heartbeats cannot time out earlier than this: the leader sent heartbeats until it was killed.
	const missed = heartbeat - heartbeat/5
	c := startTrio(t, strconv.FormatInt(heartbeat.Milliseconds(), 10))
	leader, followers := c.awaitLeader(t), c.followers(t)
	sentinels := map[string]*redis.SentinelClient{}
	for _, id := range followers {
		sentinels[id] = newSentinel(t, c, id)
		checkReply(t, sentinels[id].Ping(t.Context()), true)
	}
	begun := time.Now()
	c.kill(t, leader)
	for id, s := range sentinels {
		eventually(t, func(ctx context.Context) error {
			master, err := s.Master(ctx, trioMaster).Result()
			if err != nil || master["flags"] != "s_down,master,disconnected" {
				return errors.Join(fmt.Errorf("%s returns the leader %v", id, master), err)
			}
			return nil
		})
		took := time.Since(begun)
		t.Logf("%s flags the leader after %v", id, took.Round(time.Millisecond))
		if took > missed {
			t.Errorf("%s flags the killed leader only after %v, with a heartbeat of %v", id, took, heartbeat)
		}
	}
}
