package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/cluster/raftstore"
	"github.com/throttledhq/throttled/internal/testserve"
)

// charges sends charges to servers, and counts those that are acknowledged.
type charges struct {
	t       *testing.T
	acked   [100]atomic.Int64 // by key
	stopped atomic.Bool
	clients sync.WaitGroup
}

const chargeLimit = 100_000

// run charges keys on a server until the test stops the charges.
func (c *charges) run(addr string, first int) {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = client.Close() }()
	for i := first; !c.stopped.Load(); i++ {
		k := i % len(c.acked)
		reply, err := client.Do(context.Background(), "CL.THROTTLE", key(k), chargeLimit-1, 1, 86400).Int64Slice()
		if c.stopped.Load() {
			return // the servers may have been killed
		}
		if err != nil || reply[0] != 0 {
			c.t.Errorf("a charge: %v, error %v", reply, err)
			return
		}
		c.acked[k].Add(1)
	}
}

func key(k int) string { return "key:" + strconv.Itoa(k) }

// startCharges charges keys on all servers, until stop is called.
func startCharges(t *testing.T, all ...*process) *charges {
	c := &charges{t: t}
	for i, p := range all {
		c.clients.Go(func() { c.run(p.addr, i*31) })
		c.clients.Go(func() { c.run(p.addr, i*31+50) })
	}
	until(t, "each key has been charged", func() bool {
		for k := range c.acked {
			if c.acked[k].Load() == 0 {
				return false
			}
		}
		return true
	})
	return c
}

func (c *charges) counts() (n [100]int64) {
	for k := range c.acked {
		n[k] = c.acked[k].Load()
	}
	return n
}

// checkCharged checks that each key has at least a number of charges.
func checkCharged(t *testing.T, p *process, least [100]int64) {
	t.Helper()
	p.askUntil("[0 ", "CL.THROTTLE", "other", 1, 1, 60, 0) // the server is ready
	client := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = client.Close() }()
	for k, n := range least {
		reply, err := client.Do(t.Context(), "CL.THROTTLE", key(k), chargeLimit-1, 1, 86400, 0).Int64Slice()
		if err != nil || reply[2] > chargeLimit-n {
			t.Errorf("%s: %v, error %v; want at most %d remaining", key(k), reply, err, chargeLimit-n)
		}
	}
}

// TestProcess_Backup backs up a server in memory under load, kills it, and starts a server with the backup as its snapshot.
func TestProcess_Backup(t *testing.T) {
	p := newServer(t)
	p.askUntil("PONG", "PING")
	load := startCharges(t, p)
	before := load.counts()
	dir := t.TempDir()
	file := filepath.Join(dir, "dump.thr")
	executes(t, exitOK, "100 keys", "backup", "--from", p.addr, "--out", file)
	load.stopped.Store(true)
	p.kill()
	load.clients.Wait()
	executes(t, exitOK, "ok\n", "check", file)
	executes(t, exitOK, `{"key":"key:99"`, "dump", file)
	p.args = append(p.args, "--dir", dir)
	p.start()
	checkCharged(t, p, before)
}

// TestProcess_BackupCluster backs up a cluster under load through a follower, kills all nodes, and restores the backup in all
// documented ways: on all nodes of a new cluster, on one that others join, and on a standalone server with a log or a snapshot.
func TestProcess_BackupCluster(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2", "n3"}, "--raft-heartbeat", "1000")
	_, others := leaderOf(t, all)
	for _, p := range all {
		p.askUntil("[0 ", "CL.THROTTLE", "first", 1, 1, 60, 0)
	}
	all[0].askUntil("OK", "ACL", "SETUSER", "app", "on", ">pw", "~app:*", "+cl.throttle")
	load := startCharges(t, all...)
	before := load.counts()
	dir := t.TempDir()
	file, users := filepath.Join(dir, "dump.thr"), filepath.Join(dir, "users.acl")
	executes(t, exitOK, "keys, ", "backup", "--from", others[0].addr, "--out", file, "--users-out", users)
	load.stopped.Store(true)
	for _, p := range all {
		p.kill()
	}
	load.clients.Wait()

	t.Run("all nodes", func(t *testing.T) { restoreAll(t, all, file, users, before) })
	t.Run("one node", func(t *testing.T) {
		first := all[0].restored(t, file, all[0].id+"="+all[0].raft)
		first.start()
		checkCharged(t, first, before)
		joined := newJoining(t, "n9", first, "--raft-heartbeat", "1000")
		checkCharged(t, joined, before)
	})
	t.Run("log", func(t *testing.T) {
		to := t.TempDir()
		executes(t, exitOK, "keys for node local", "restore", "--from", file, "--data-dir", to)
		checkCharged(t, newServer(t, "--data-dir", to), before)
	})
	t.Run("snapshot", func(t *testing.T) { checkCharged(t, newServer(t, "--dir", dir), before) })
}

// restored returns a process of the same node with the data of a backup. The process is not started.
func (p *process) restored(t *testing.T, file string, nodes ...string) *process {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	executes(t, exitOK, "for node "+p.id+" of cluster test", append([]string{"restore", "--from", file, "--data-dir", dir, "--cluster-id", "test", "--node-id", p.id}, nodes...)...)
	fresh := &process{t: t, id: p.id, addr: p.addr, raft: p.raft, dir: dir}
	fresh.args = p.without("--bootstrap")
	fresh.args = fresh.with("--data-dir", dir)
	return fresh
}

// restoreAll starts a new cluster of all nodes, with the users in a file. A node with the data of the old cluster must not
// take part in it.
func restoreAll(t *testing.T, all []*process, file, users string, before [100]int64) {
	var list []string
	for _, p := range all {
		list = append(list, p.id+"="+p.raft)
	}
	var fresh []*process
	for _, p := range all {
		node := p.restored(t, file, list...)
		node.args = append(node.args, "--aclfile", users)
		fresh = append(fresh, node)
	}
	for _, p := range fresh {
		p.start()
	}
	for _, p := range fresh {
		checkCharged(t, p, before)
		p.askUntil("user app on #", "ACL", "LIST")
	}
	_, followers := leaderOf(t, fresh)
	lost := followers[0]
	lost.kill()
	old := *all[0]
	for _, p := range all {
		if p.id == lost.id {
			old = *p
		}
	}
	old.t = t
	old.start()
	if code, _ := old.waitExit(patience); code == exitOK || !strings.Contains(old.log.String(), "recovered without this node") {
		t.Errorf("a node of the old cluster exits with %d, want an error because its cluster was replaced:\n%s", code, old.log)
	}
	lost.start()
	checkCharged(t, lost, before)
	for _, p := range fresh {
		p.kill()
	}
}

// TestProcess_BackupInterrupted interrupts backups over a connection that stops, by a signal and by a failure of the server. The
// previous backup must stay, and no other file may remain.
func TestProcess_BackupInterrupted(t *testing.T) {
	p := newServer(t)
	p.askUntil("[0 ", "CL.THROTTLE", "k", 1, 1, 60)
	dir := t.TempDir()
	file := filepath.Join(dir, "backup.thr")
	executes(t, exitOK, "1 keys", "backup", "--from", p.addr, "--out", file)
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"stalled": {"--timeout", "200ms", "--from", stalling(t, p.addr, 0)},
		"closed":  {"--from", stalling(t, p.addr, time.Millisecond)},
	} {
		executes(t, exitError, "throttled backup: ", append([]string{"backup", "--out", file}, args...)...)
		got, err := os.ReadFile(file)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: the previous backup was changed, error %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := (node{find(commands(), "backup"), "backup"}).execute(ctx, []string{"--from", p.addr, "--out", filepath.Join(dir, "new.thr")}, &lockedBuffer{}, &lockedBuffer{}); code != exitError {
		t.Errorf("an interrupted backup exits with %d, want 1", code)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, error %v; want the first backup only", entries, err)
	}
	p.askUntil("OK", "CL.BACKUP", "START") // a backup whose client has disconnected does not block the next one
}

// stalling listens in front of a server. It does not pass replies of CL.BACKUP NEXT, and closes the connection after a time, or
// never if the time is 0.
func stalling(t *testing.T, addr string, closeAfter time.Duration) (front string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return testserve.Each(t, ln, func(c net.Conn) { stall(c, addr, closeAfter) })
}

func stall(c net.Conn, addr string, closeAfter time.Duration) {
	to, err := net.Dial("tcp", addr)
	if err != nil {
		_ = c.Close()
		return
	}
	go func() {
		defer func() { _, _ = c.Close(), to.Close() }()
		buf := make([]byte, 4096)
		for {
			n, err := to.Read(buf)
			switch {
			case err != nil:
				return
			case !strings.Contains(string(buf[:n]), "THR\r\n"): // the first bytes of a snapshot
				_, _ = c.Write(buf[:n])
			case closeAfter > 0:
				time.Sleep(closeAfter) // the fault that is injected: a delay before the connection is closed
				return
			}
		}
	}()
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			_ = to.Close()
			return
		}
		_, _ = to.Write(buf[:n])
	}
}

// TestBackup_Rules saves the rules beside the keys.
func TestBackup_Rules(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	writeFile(t, file, edgeRules)
	r := start(t, "--rules", file)
	saved := filepath.Join(dir, "saved.yaml")
	executes(t, exitOK, "0 keys", "backup", "--from", r.addr, "--out", filepath.Join(dir, "b.thr"), "--rules-out", saved)
	if text, err := os.ReadFile(saved); string(text) != edgeRules || err != nil {
		t.Errorf("the saved rules are %q, error %v", text, err)
	}
	without := start(t)
	executes(t, exitError, "read the rules: ", "backup", "--from", without.addr, "--out", filepath.Join(dir, "c.thr"), "--rules-out", saved)
	if _, err := os.Stat(filepath.Join(dir, "c.thr")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a backup without its rules: error %v, want no file", err)
	}
}

// TestBackup_Users saves the users of a server. Another server starts with the file, and the file is readable by its owner only.
func TestBackup_Users(t *testing.T) {
	r := start(t)
	r.wants("+OK\r\n", "ACL SETUSER app on >secret ~app:* +cl.throttle")
	dir := t.TempDir()
	file := filepath.Join(dir, "users.acl")
	executes(t, exitOK, "0 keys", "backup", "--from", r.addr, "--out", filepath.Join(dir, "b.thr"), "--users-out", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of users: %v, error %v; want the mode 600", info, err)
	}
	r.wants("+OK\r\n", "ACL SETUSER backup on nopass +cl.backup")
	next := start(t, "--aclfile", file)
	next.wants("+OK\r\n", "AUTH app secret")
	password := filepath.Join(dir, "password")
	writeFile(t, password, "any")
	executes(t, exitError, "read the users: ", "backup", "--from", r.addr, "--out", filepath.Join(dir, "c.thr"), "--users-out", file, "--user", "backup", "--password-file", password)
}

// TestBackup_User backs up a server as a user without other permissions.
func TestBackup_User(t *testing.T) {
	r := start(t)
	r.wants("+OK\r\n+OK\r\n", "ACL SETUSER backup on >secret +cl.backup", "ACL SETUSER other on >secret +ping")
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	writeFile(t, password, "secret")
	executes(t, exitOK, "0 keys", "backup", "--from", r.addr, "--out", filepath.Join(dir, "b.thr"), "--user", "backup", "--password-file", password)
	executes(t, exitError, "NOPERM", "backup", "--from", r.addr, "--out", filepath.Join(dir, "c.thr"), "--user", "other", "--password-file", password)
}

func TestBackup_Usage(t *testing.T) {
	executes(t, exitOK, "--out FILE", "backup", "--help")
	executes(t, exitUsage, "--out is missing", "backup")
	executes(t, exitUsage, "wrong number of arguments", "backup", "--out", "x", "y")
	executes(t, exitUsage, "--timeout", "backup", "--out", "x", "--timeout", "-1s")
	executes(t, exitError, "refused", "backup", "--out", filepath.Join(t.TempDir(), "x"), "--from", freeAddr(t))
	r := start(t, "--requirepass", "secret")
	executes(t, exitError, "requires a password", "backup", "--out", filepath.Join(t.TempDir(), "x"), "--from", r.addr)
	executes(t, exitError, "no such file or directory", "backup", "--out", filepath.Join(t.TempDir(), "no", "x"), "--from", r.addr)
}

// TestBackup_Files checks that a pipe is not replaced, and that nothing is written through a link with the name of an unfinished
// backup.
func TestBackup_Files(t *testing.T) {
	r, dir := start(t), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(syscall.Mkfifo(path("pipe"), 0o600), os.Symlink(path("victim"), path("b.thr.tmp"))); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path("victim"), "text")
	executes(t, exitError, path("pipe")+" is not a regular file", "backup", "--from", r.addr, "--out", path("pipe"))
	executes(t, exitError, dir+" is not a regular file", "backup", "--from", r.addr, "--out", dir)
	executes(t, exitOK, "0 keys", "backup", "--from", r.addr, "--out", path("b.thr"))
	if text, err := os.ReadFile(path("victim")); string(text) != "text" || err != nil {
		t.Errorf("the file that a link names contains %q, error %v", text, err)
	}
	for _, args := range [][]string{{"--rules-out", "x"}, {"--users-out", "x"}, {"--rules-out", "y", "--users-out", "y"}} {
		executes(t, exitUsage, "different files", append([]string{"backup", "--out", "x"}, args...)...)
	}
}

func TestRestore_Refuses(t *testing.T) {
	file, dir := snapshotOf(t, throttleRecord("k", 1<<62)), t.TempDir()
	nodes := []string{"restore", "--from", file, "--data-dir", dir, "--cluster-id", "c", "--node-id"}
	executes(t, exitOK, "--from FILE", "restore", "--help")
	executes(t, exitUsage, "--from is missing", "restore")
	executes(t, exitUsage, "--data-dir is missing", "restore", "--from", file)
	executes(t, exitUsage, "require each other", append(nodes, "n1")...)
	executes(t, exitUsage, "node n1 is not in the list", append(nodes, "n1", "n2=127.0.0.1:1")...)
	executes(t, exitUsage, "invalid name", append(nodes, "n_1", "n2=127.0.0.1:1")...)
	executes(t, exitUsage, "n1:1", append(nodes, "n1", "n1:1")...)
	executes(t, exitError, "open snapshot", "restore", "--from", "/nowhere", "--data-dir", dir)
	damaged := filepath.Join(t.TempDir(), "damaged.thr")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, damaged, string(text[:len(text)-1]))
	executes(t, exitError, "damaged", "restore", "--from", damaged, "--data-dir", dir)
	executes(t, exitOK, "1 keys for node local of cluster local", "restore", "--from", file, "--data-dir", dir)
	executes(t, exitError, raftstore.ErrHasData.Error(), "restore", "--from", file, "--data-dir", dir)
	executes(t, exitError, fmt.Sprint(raftstore.ErrHasData), append(nodes, "n1", "n1=127.0.0.1:1")...)
}
