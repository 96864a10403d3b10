package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/cluster"
)

// TestProcess_ManyThroughAFollower sends commands from many clients to a follower, which forwards them. The leader must
// accept all streams that the follower opens. A client sends its pipeline again after the errors LOADING and
// UNCERTAIN, which can occur on a busy machine. Other errors must not occur.
func TestProcess_ManyThroughAFollower(t *testing.T) {
	leader, others := leaderOf(t, newProcesses(t, []string{"n1", "n2", "n3"}, "--raft-heartbeat", "2000")) // avoids elections on a busy machine
	follower := others[0]
	follower.askUntil("[0 ", "CL.THROTTLE", "first", "1", "1", "60")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wait sync.WaitGroup
	for i := range 120 {
		wait.Go(func() {
			client := redis.NewClient(&redis.Options{Addr: follower.addr, MaxRetries: -1, PoolSize: 1, DisableIdentity: true, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience})
			defer func() { _ = client.Close() }()
			for range 5 {
				for err := errors.New("LOADING"); err != nil; {
					p := client.Pipeline()
					for range 20 { // so that many commands are pending
						p.Do(ctx, "CL.THROTTLE", fmt.Sprint("k", i), "1000", "1", "60")
					}
					if _, err = p.Exec(ctx); err != nil && !strings.HasPrefix(err.Error(), "LOADING") && !strings.HasPrefix(err.Error(), "UNCERTAIN") {
						t.Errorf("client %d: unexpected error %v", i, err)
						return
					}
				}
			}
		})
	}
	wait.Wait()
	if text := "too many streams"; strings.Contains(leader.log.String(), text) {
		t.Errorf("the log of the leader contains %s:\n%s", text, leader.log)
	}
}

// TestProcess_UsedID deletes the data of a joined node. When the node is restarted under its old id, it exits and logs
// the reason. The other nodes continue.
func TestProcess_UsedID(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2"})
	leader, _ := leaderOf(t, all)
	joiner := newJoining(t, "n3", leader)
	leader.askUntil("raft="+joiner.raft+" role=follower", "CL.CLUSTER", "NODES")
	joiner.askUntil("[0 ", "CL.THROTTLE", "k", "0", "1", "3600")
	joiner.kill()
	if err := os.RemoveAll(joiner.dir); err != nil {
		t.Fatal(err)
	}
	joiner.start()
	if code, _ := joiner.waitExit(patience); code == 0 {
		t.Error("the restarted node exits with code 0, want an error")
	}
	if !strings.Contains(joiner.log.String(), cluster.ErrUsed.Error()) {
		t.Errorf("the log of the restarted node does not contain cluster.ErrUsed:\n%s", joiner.log)
	}
	leader.askUntil("[1 ", "CL.THROTTLE", "k", "0", "1", "3600")
}
