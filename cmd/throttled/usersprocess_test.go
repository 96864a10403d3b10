package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// as returns a client of a process with one connection, which logs in as a user.
func (p *process) as(user, password string) *redis.Client {
	client := redis.NewClient(&redis.Options{
		Addr: p.addr, Username: user, Password: password, MaxRetries: -1, PoolSize: 1, DisableIdentity: true, Protocol: 2,
	})
	p.t.Cleanup(func() { _ = client.Close() })
	return client
}

// checkLogin returns an error unless a login succeeds (want is "") or returns an error that contains want.
func (p *process) checkLogin(user, password, want string) error {
	client := p.as(user, password)
	defer func() { _ = client.Close() }()
	err := client.Do(p.t.Context(), "PING").Err()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		return fmt.Errorf("%s: a login of %s returned the error %q, want %q", p.id, user, fmt.Sprint(err), want)
	}
	return nil
}

// awaitLogin waits until checkLogin returns nil.
func (p *process) awaitLogin(user, password, want string) {
	p.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(patience); ; {
		err := p.checkLogin(user, password, want)
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-end:
			p.t.Fatalf("%v\n%s", err, p.log)
		}
	}
}

// changeUsers runs a command of ACL as the user admin.
func (p *process) changeUsers(args ...any) error {
	client := p.as("admin", "root")
	defer func() { _ = client.Close() }()
	if err := client.Do(p.t.Context(), append([]any{"ACL"}, args...)...).Err(); err != nil {
		return fmt.Errorf("%s: ACL %v returned %w", p.id, args, err)
	}
	return nil
}

func (p *process) mustChangeUsers(args ...any) {
	p.t.Helper()
	if err := p.changeUsers(args...); err != nil {
		p.t.Fatalf("%v\n%s", err, p.log)
	}
}

// slowNode is logged if a change of the users is acknowledged before all nodes have stored it.
const slowNode = "a node does not use the change yet"

// useChange checks that all nodes use the last change: immediately, unless the leader has reported that a node is slow.
func useChange(t *testing.T, all []*process, user, password, want string) {
	t.Helper()
	for _, p := range all {
		err := p.checkLogin(user, password, want)
		slow := slices.ContainsFunc(all, func(p *process) bool { return strings.Contains(p.log.String(), slowNode) })
		if err != nil && !slow {
			t.Errorf("%v; the log:\n%s", err, p.log)
		}
		p.awaitLogin(user, password, want)
	}
}

// awaitStored waits until all nodes have stored the users on disk. A node uses a change shortly before it has stored it. The
// leader acknowledges a change when all nodes have stored it, or else reports that a node is slow.
func awaitStored(t *testing.T, all []*process, leader *process) {
	t.Helper()
	slow := func() (n int) {
		for _, p := range all {
			n += strings.Count(p.log.String(), slowNode)
		}
		return n
	}
	changes := 0
	until(t, "all nodes have stored the users", func() bool {
		before := slow()
		changes++
		leader.mustChangeUsers("SETUSER", "carl", fmt.Sprintf(">%d", changes))
		return slow() == before
	})
}

// startWithUsers starts three nodes, each with its own ACL file, and waits until all have the same users.
func startWithUsers(t *testing.T) []*process {
	t.Helper()
	dir := t.TempDir()
	all := startProcesses(t, []string{"n1", "n2", "n3"}, func(id string) []string {
		file := filepath.Join(dir, id+".acl")
		writeFile(t, file, "user admin on >root ~* &* +@all\nuser seed on >of-"+id+" +ping\nuser default on nopass -@all +info +ping\n")
		return []string{"--raft-insecure", "yes", "--raft-heartbeat", "2000", "--auth-failures-per-minute", "0", "--aclfile", file}
	})
	for _, p := range all {
		p.waitLog("ACL file")
	}
	return all
}

// TestProcess_Users changes users on a follower. All nodes use a change when it is acknowledged. The changes survive a kill
// of the leader and of all nodes, and a node that is alone uses them, too.
func TestProcess_Users(t *testing.T) {
	all := startWithUsers(t)
	leader, followers := leaderOf(t, all)
	followers[0].mustChangeUsers("SETUSER", "ann", "on", ">secret", "~app:*", "+cl.throttle", "+ping")
	useChange(t, all, "ann", "secret", "")
	for _, p := range all {
		p.awaitLogin("ann", "wrong", "WRONGPASS")
		client := p.as("ann", "secret")
		if err := client.Do(t.Context(), "CL.THROTTLE", "app:x", 15, 30, 60).Err(); err != nil {
			t.Errorf("%s: ann may not use app:x: %v", p.id, err)
		}
		if err := client.Do(t.Context(), "CL.THROTTLE", "other", 15, 30, 60).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("%s: ann used another key: %v, want NOPERM", p.id, err)
		}
	}
	leader.kill()
	next, _ := leaderOf(t, followers)
	next.mustChangeUsers("SETUSER", "bob", "on", ">later", "+ping")
	useChange(t, followers, "ann", "secret", "")
	useChange(t, followers, "bob", "later", "")
	next.mustChangeUsers("DELUSER", "ann")
	leader.start()
	expectBob := func(p *process) {
		t.Helper()
		p.awaitLogin("bob", "later", "")
		p.awaitLogin("ann", "secret", "WRONGPASS")
	}
	expectBob(leader)
	awaitStored(t, all, next)
	for _, p := range all {
		p.kill()
	}
	all[0].start()
	expectBob(all[0])
	all[1].start()
	all[2].start()
	for _, p := range all {
		expectBob(p)
	}
}

// TestProcess_UsersSeed starts nodes with different ACL files. All nodes use the same one.
func TestProcess_UsersSeed(t *testing.T) {
	all := startWithUsers(t)
	seeder := awaitSeeder(t, all)
	for _, p := range all {
		for _, of := range all {
			want := map[bool]string{true: "", false: "WRONGPASS"}[of == seeder]
			p.awaitLogin("seed", "of-"+of.id, want)
		}
	}
}

// awaitSeeder waits until all nodes use the same ACL file, and returns the node to which it belongs.
func awaitSeeder(t *testing.T, all []*process) *process {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(patience); ; {
		for _, of := range all {
			if !slices.ContainsFunc(all, func(p *process) bool { return p.checkLogin("seed", "of-"+of.id, "") != nil }) {
				return of
			}
		}
		select {
		case <-ticker.C:
		case <-end:
			t.Fatal("the nodes do not use the same file")
		}
	}
}

// TestProcess_DeletedUser deletes a user that is connected to all nodes. All of its connections are closed.
func TestProcess_DeletedUser(t *testing.T) {
	all := startWithUsers(t)
	_, followers := leaderOf(t, all)
	followers[0].mustChangeUsers("SETUSER", "ann", "on", ">secret", "&news", "+subscribe", "+ping")
	closed := make(chan string, len(all))
	for _, p := range all {
		sub := p.as("ann", "secret").Subscribe(t.Context(), "news")
		defer func() { _ = sub.Close() }()
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = sub.Receive(t.Context()) // returns an error when the connection is closed
			closed <- p.id
		}()
	}
	followers[1].mustChangeUsers("DELUSER", "ann")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range all {
		select {
		case <-closed:
		case <-ctx.Done():
			t.Fatal("a connection of the deleted user is still open")
		}
	}
}

// TestProcess_ConcurrentUsers creates users on all nodes concurrently. None is lost.
func TestProcess_ConcurrentUsers(t *testing.T) {
	all := startWithUsers(t)
	var creating sync.WaitGroup
	for _, p := range all {
		creating.Go(func() {
			for i := range 5 {
				if err := p.changeUsers("SETUSER", fmt.Sprint(p.id, "-", i), "on", "nopass", "+ping"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	creating.Wait()
	for _, p := range all {
		for _, id := range []string{"n1", "n2", "n3"} {
			for i := range 5 {
				p.awaitLogin(fmt.Sprint(id, "-", i), "any", "")
			}
		}
	}
}
