package clienttests

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestFollowerAway kills a follower and restarts it. All replies of the leader that list nodes
// must report the follower as unhealthy while it is down, and as healthy after the restart. While
// the follower is down, clients of all kinds must continue to work.
func TestFollowerAway(t *testing.T) {
	c := startTrio(t, patientBeat) // a long heartbeat, since the leader must not change
	leader, away := c.awaitLeader(t), c.followers(t)[0]
	eventually(t, func(ctx context.Context) error { return c.isShown(ctx, leader, away, true) })
	c.kill(t, away)
	eventually(t, func(ctx context.Context) error { return c.isShown(ctx, leader, away, false) })
	for _, r := range routes {
		if r.name == "radix, sentinel" {
			// This client asks an arbitrary node for the replicas. It fails to start if that node still reports
			// the killed follower as healthy.
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			call := r.open(t, c, leader)
			for want := int64(2); want >= 0; want-- {
				d, err := numbers(call(t.Context(), "CL.THROTTLE", "by "+r.name, "2", "1", hour))
				if err != nil || d.limited() || d.remaining() != want {
					t.Errorf("got %v, error %v; want %d remaining", d, err, want)
				}
			}
		})
	}
	if got := c.awaitLeader(t); got != leader {
		t.Fatalf("the leader has changed to %s", got)
	}
	c.restart(t, away)
	eventually(t, func(ctx context.Context) error { return c.isShown(ctx, leader, away, true) })
}

// isShown returns an error unless all replies of the leader report a node as expected: as healthy
// if well is true, and otherwise as unhealthy.
func (c *trio) isShown(ctx context.Context, leader, id string, well bool) error {
	host := c.host(id)
	for what, shown := range map[string]struct {
		port    string
		command string
		line    string // a pattern that matches if the node is healthy
		other   string // a pattern that matches if the node is not healthy
	}{
		"nodes":    {portForAll, "CL.CLUSTER NODES", id + ` raft=\S+ role=follower answers=yes behind=\d+ `, id + ` raft=\S+ role=follower answers=no `},
		"info":     {portForAll, "INFO replication", `connected_slaves:2\r\n(.|\n)*ip=` + host + `,port=\d+,state=online,offset=[1-9]\d*,lag=0`, `connected_slaves:1\r\n`},
		"role":     {portForAll, "ROLE", host + ` 6380 [1-9]\d*\]`, `^\[master \d+ \[\[\S+ 6380 [1-9]\d*\]\]\]$`},
		"shards":   {portForCluster, "CLUSTER SHARDS", `ip:` + host + ` port`, `health:fail id:\w+ ip:` + host},
		"topology": {portForCluster, "CLUSTER NODES", host + `:6384@6382 slave \w+ 0 0 \d+ connected\n`, host + `:6384@6382 slave,fail \w+ 0 0 \d+ disconnected\n`},
		"sentinel": {portForSentinel, "SENTINEL REPLICAS " + trioMaster, `flags:slave .*ip:` + host + ` .*master-link-status:ok `, `flags:s_down,slave,disconnected .*ip:` + host + ` .*master-link-status:err `},
	} {
		client := redis.NewClient(&redis.Options{Addr: c.at(leader, shown.port), Password: trioPassword})
		v, err := client.Do(ctx, words(strings.Fields(shown.command))...).Result()
		_ = client.Close() // no call is in progress
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		text := strings.Join(texts(v), "\n")
		isWell, isDown := regexp.MustCompile(shown.line).MatchString(text), regexp.MustCompile(shown.other).MatchString(text)
		if what == "shards" {
			isWell = isWell && !isDown
		}
		if isWell != well || isDown == well {
			return fmt.Errorf("%s reports %s as: %s", leader, id, text)
		}
	}
	return nil
}

// texts formats a reply, with one line for each map in a list.
func texts(v any) (lines []string) {
	if list, is := v.([]any); is && slices.ContainsFunc(list, func(e any) bool { _, is := e.(map[any]any); return is }) {
		for _, e := range list {
			lines = append(lines, fmt.Sprint(e))
		}
		return lines
	}
	return []string{fmt.Sprint(v)}
}
