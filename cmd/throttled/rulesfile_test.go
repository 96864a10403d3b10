package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/ruleset"
)

// textOfRules returns the text of a rules file with one limit.
func textOfRules(limit string) string {
	return "version: 1\ndomain: shop\nlimits:\n  " + limit + ": {allow: 5 per minute}\n"
}

// awaitRules waits until a process has a version of the rules whose only limit has the given name.
func (p *process) awaitRules(version int, limit string) {
	p.t.Helper()
	p.askUntil(fmt.Sprintf("rules_version:%d\r\nrules_active_version:%[1]d\r\n", version), "INFO", "rules")
	p.askUntil("shop:["+limit+"]", "CL.RULES", "LIST")
}

// replace replaces a file by a rename, as editors do.
func replace(t *testing.T, path, text string) {
	t.Helper()
	writeFile(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// do runs a command in RESP2. It repeats a command that had no effect because the cluster had no leader: on a busy machine,
// the leader can change at any time.
func (p *process) do(args ...any) (reply any, err error) {
	client := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, DisableIdentity: true, Protocol: 2})
	defer func() { _ = client.Close() }()
	for end := time.Now().Add(patience); ; {
		reply, err = client.Do(p.t.Context(), args...).Result()
		if err == nil || !strings.HasPrefix(err.Error(), "LOADING the cluster has no leader") || time.Now().After(end) {
			return reply, err
		}
		time.Sleep(20 * time.Millisecond) // the polling interval
	}
}

func (p *process) mustDo(args ...any) {
	p.t.Helper()
	if got, err := p.do(args...); err != nil {
		p.t.Fatalf("%v: %v, error %v\n%s", args, got, err, p.log)
	}
}

// authoredRollback runs CL.RULES ROLLBACK on a connection with a name, and returns the address of the connection.
func (p *process) authoredRollback(name string, version int) string {
	p.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1, DisableIdentity: true, ClientName: name})
	defer func() { _ = client.Close() }()
	conn := client.Conn()
	defer func() { _ = conn.Close() }()
	info, err := conn.ClientInfo(p.t.Context()).Result()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := conn.Do(p.t.Context(), "CL.RULES", "ROLLBACK", version).Err(); err != nil {
		p.t.Fatal(err)
	}
	return info.Addr
}

// TestRulesFileChanges changes the rules file of a standalone server in all ways in which a file changes.
func TestRulesFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, textOfRules("a"))
	p := newServer(t, "--rules", path)
	p.awaitRules(1, "a")
	replace(t, path, textOfRules("b"))
	p.awaitRules(2, "b")
	writeFile(t, path, textOfRules("c"))
	p.awaitRules(3, "c")
	p.askUntil("rules_file_version:3\r\nrules_file_active:1\r\n", "INFO", "rules")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	p.askUntil("rules_file_version:0\r\nrules_file_active:0\r\nrules_last_error:cannot read the rules file: open "+path+": no such file", "INFO", "rules")
	writeFile(t, path, textOfRules("d"))
	p.awaitRules(4, "d")
	p.askUntil("rules_last_error:\r\n", "INFO", "rules")
	writeFile(t, path, textOfRules("b")) // on a standalone server, an earlier text takes effect again
	p.awaitRules(5, "b")
	p.hangUp()
	p.waitLog("msg=reloaded")
	p.awaitRules(5, "b")
}

// TestBadRulesFile checks that a bad file changes nothing, and that its problem is logged once and shown by INFO.
func TestBadRulesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, textOfRules("a"))
	p := newServer(t, "--rules", path)
	p.awaitRules(1, "a")
	replace(t, path, strings.Replace(textOfRules("b"), "per minute", "per minuet", 1))
	p.askUntil("rules.yaml:4:14: limits.b.allow:", "INFO", "rules")
	p.awaitRules(1, "a")
	for range 2 {
		p.hangUp()
	}
	replace(t, path, textOfRules("c"))
	p.awaitRules(2, "c")
	p.askUntil("rules_last_error:\r\n", "INFO", "rules")
	if n := strings.Count(p.log.String(), "the rules file has no effect"); n != 1 {
		t.Errorf("the problem was logged %d times, want once:\n%s", n, p.log)
	}
	p.mustDo("CL.RULES", "SET", textOfRules("d"))
	p.awaitRules(3, "d")
	replace(t, path, "version: 2\n")
	p.askUntil("is not a known version", "INFO", "rules")
	replace(t, path, textOfRules("c")) // a change: the last text was the one with the problem
	p.awaitRules(4, "c")
}

// TestDeletedFile checks that the text of a file that is deleted before it became a version is not proposed.
func TestDeletedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	f := newRulesFile(path, ruleset.NewStore(), nil, slog.New(slog.DiscardHandler))
	for range 2 {
		writeFile(t, path, textOfRules("a"))
		if f.check(); f.pending == nil {
			t.Error("a valid file is not proposed")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if f.check(); f.pending != nil {
			t.Error("a deleted file is proposed")
		}
	}
}

// TestServerDoesNotStartWithBadRules checks the exit code and the message.
func TestServerDoesNotStartWithBadRules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	for _, test := range []struct{ text, want string }{
		{"version: 1\ndomain: shop\nlimits:\n  a: {allow: 5}\n", path + ":4:14: limits.a.allow: "},
		{"", "no such file"},
	} {
		if test.text != "" {
			writeFile(t, path, test.text)
		} else if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		p := &process{t: t, id: "server", args: []string{"--port", "0", "--rules", path}}
		p.start()
		if code, _ := p.waitExit(patience); code != exitUsage || !strings.Contains(p.log.String(), test.want) {
			t.Errorf("with the file %q, the server exits with %d, want %d and %q:\n%s", test.text, code, exitUsage, test.want, p.log)
		}
	}
}

// TestRulesAreLoadedAfterBind checks that a server whose port is in use does not log that its rules are active.
func TestRulesAreLoadedAfterBind(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, textOfRules("a"))
	var log bytes.Buffer
	code := run([]string{"--rules", path, "--port", fmt.Sprint(taken.Addr().(*net.TCPAddr).Port)}, nil, io.Discard, &log)
	if code != exitError || strings.Contains(log.String(), "is active") || !strings.Contains(log.String(), "address already in use") {
		t.Errorf("the server exits with %d, want %d, and only the error of the port:\n%s", code, exitError, &log)
	}
}

// TestRulesFileOfKubernetes swaps a symbolic link in the path of the file, as Kubernetes does for a ConfigMap.
func TestRulesFileOfKubernetes(t *testing.T) {
	dir := t.TempDir()
	generation := func(n int, limit string) {
		t.Helper()
		name := fmt.Sprintf("..gen%d", n)
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name, "rules.yaml"), textOfRules(limit))
		if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..gen%d", n-1))); err != nil {
			t.Fatal(err)
		}
	}
	generation(1, "a")
	path := filepath.Join(dir, "rules.yaml")
	if err := os.Symlink(filepath.Join("..data", "rules.yaml"), path); err != nil {
		t.Fatal(err)
	}
	p := newServer(t, "--rules", path)
	p.awaitRules(1, "a")
	for n, limit := range []string{2: "b", 3: "c", 4: "d"} {
		if n >= 2 {
			generation(n, limit)
			p.awaitRules(n, limit)
		}
	}
}

// TestRulesOnDisk checks a standalone server with a data directory: a rollback outlives a restart with the old file.
func TestRulesOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, textOfRules("a"))
	p := newServer(t, "--rules", path, "--data-dir", t.TempDir())
	p.awaitRules(1, "a")
	replace(t, path, textOfRules("b"))
	p.awaitRules(2, "b")
	p.mustDo("CL.RULES", "ROLLBACK", 1)
	p.awaitRules(3, "a")
	p.kill()
	p.start()
	p.waitLog("the rules file has the text of an earlier version and has no effect")
	p.awaitRules(3, "a")
	p.kill()
	writeFile(t, path, "not rules")
	p.start()
	p.askUntil(path+":1:1: ", "INFO", "rules")
	p.awaitRules(3, "a")
}

// TestRulesFilesOfACluster starts three nodes with different files, rolls back, and kills and restarts the nodes.
func TestRulesFilesOfACluster(t *testing.T) {
	files := map[string]string{}
	all := startProcesses(t, []string{"n1", "n2", "n3"}, func(id string) []string {
		files[id] = filepath.Join(t.TempDir(), id+".yaml")
		writeFile(t, files[id], textOfRules("of-"+id))
		return []string{"--raft-insecure", "yes", "--rules", files[id]}
	})
	for _, p := range all {
		p.askUntil("rules_version:3\r\nrules_active_version:3\r\n", "INFO", "rules")
	}
	leader, others := leaderOf(t, all)
	others[0].mustDo("CL.RULES", "SET", textOfRules("set"), "BASE", 3)
	for _, p := range all {
		p.awaitRules(4, "set")
	}
	replace(t, files[others[1].id], textOfRules("changed")) // a follower sends its file to the leader
	for _, p := range all {
		p.awaitRules(5, "changed")
	}
	author := "author:alice at " + others[0].authoredRollback("alice", 4) + " of node " + others[0].id + " "
	for _, p := range all {
		p.askUntil(author, "CL.RULES", "HISTORY", "1")
	}
	for _, p := range append([]*process{leader}, others...) {
		p.kill()
		p.start()
		p.waitLog("the rules file has the text of an earlier version and has no effect")
		for _, each := range all {
			each.awaitRules(6, "set")
		}
	}
	others[1].askUntil("rules_file_version:5\r\nrules_file_active:0\r\n", "INFO", "rules") // its file has the text before the rollback
	writeFile(t, files["n1"], "not rules")
	all[0].askUntil("n1.yaml:1:1: ", "INFO", "rules")
	all[1].awaitRules(6, "set")
}

// TestLinksOf checks the paths that are watched.
func TestLinksOf(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for link, target := range map[string]string{
		"relative": "real", "absolute": at("real"), "up": "real/../real", "loop": "loop", "file": "absolute/file", "missing": "nothing/file",
	} {
		if err := os.Symlink(target, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(at("real"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		"real/file":     {"real/file"},
		"none/file":     {"none/file"},
		"relative/file": {"relative", "real/file"},
		"up/file":       {"up", "real/file"},
		"file":          {"file", "absolute", "real/file"},
		"missing":       {"missing", "nothing/file"},
	} {
		var names []string
		for _, name := range linksOf(at(path)) {
			names = append(names, strings.TrimPrefix(name, dir+"/"))
		}
		if fmt.Sprint(names) != fmt.Sprint(want) {
			t.Errorf("the paths of %s are %q, want %q", path, names, want)
		}
	}
	if n := len(linksOf(at("loop/file"))); n != maxLinks+1 {
		t.Errorf("a loop has %d paths, want %d", n, maxLinks+1)
	}
}

// TestFileThatChangesForever checks that a file is read although it does not stop changing.
func TestFileThatChangesForever(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, textOfRules("a"))
	p := newServer(t, "--rules", path)
	p.awaitRules(1, "a")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(quietFor / 4):
				writeFile(t, path+".new", textOfRules("b")+fmt.Sprintf("# %d\n", i))
				_ = os.Rename(path+".new", path) // checked by the version below
			}
		}
	}()
	p.askUntil("rules_version:3\r\n", "INFO", "rules")
	close(stop)
	<-done
}

// TestUsedUnitsOutliveAChange checks that units used are kept when the amount of a limit changes, in a cluster whose leader
// is killed after the change, and that a refused client waits no longer than under a higher rate.
func TestUsedUnitsOutliveAChange(t *testing.T) {
	all := newProcesses(t, []string{"n1", "n2", "n3"})
	text := func(amount string) string {
		return "version: 1\ndomain: shop\nlimits:\n  login: {allow: " + amount + "}\n"
	}
	admits := func(p *process, want int) {
		t.Helper()
		for n := 0; ; n++ {
			reply, err := p.do("CL.CHECK", "shop", "path", "/")
			if err != nil {
				t.Fatalf("CL.CHECK: %v\n%s", err, p.log)
			}
			if reply.([]any)[0] != int64(0) {
				if n != want {
					t.Errorf("%d requests were admitted, want %d", n, want)
				}
				return
			}
		}
	}
	leader, others := leaderOf(t, all)
	others[0].askUntil("version:1", "CL.RULES", "SET", text("5 per 30 days"))
	admits(others[0], 5)
	leader.mustDo("CL.RULES", "PATCH", "limits: {login: {allow: 8 per 30 days}}")
	leader.kill()
	others[0].askUntil("8 per 30 days", "CL.RULES", "EXPLAIN", "shop")
	admits(others[0], 3)
	others[1].mustDo("CL.RULES", "ROLLBACK", 1)
	admits(others[1], 0)
	others[1].mustDo("CL.RULES", "PATCH", "limits: {login: {allow: 1000000 per 30 days burst 8}}")
	admits(others[1], 0) // the refused request converts the state: one unit is restored every 2.592 s, not every 6 days
	reply, err := others[0].do("CL.CHECK", "shop", "PEEK", "path", "/")
	if err != nil || reply.([]any)[4].(int64) > 8*3 {
		t.Errorf("a peek after the refusal replies %v, %v; want a reset after at most 24 s", reply, err)
	}
}

// TestFirstRulesWaitForAllMembers checks that the rules file of a cluster with a member that is down is not active, that
// INFO shows the reason, and that the file becomes active when the member is started.
func TestFirstRulesWaitForAllMembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	all := newProcesses(t, []string{"n1", "n2", "n3"}, "--rules", path)
	leader, others := leaderOf(t, all)
	for _, p := range all {
		p.askUntil("no such file", "INFO", "rules")
	}
	others[0].kill()
	writeFile(t, path, textOfRules("a"))
	others[1].askUntil("rules_last_error:the file has no effect yet: set the first rules: all members must be running", "INFO", "rules")
	leader.askUntil("rules_version:0\r\n", "INFO", "rules")
	others[0].start()
	for _, p := range all {
		p.awaitRules(1, "a")
		p.askUntil("rules_last_error:\r\n", "INFO", "rules")
	}
}

// The text of the file is proposed when the node is ready: before, it may not know the newest version of the rules.
func TestRulesFile_Ready(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, path, textOfRules("a"))
	store := ruleset.NewStore()
	f := newRulesFile(path, store, ruleset.NewLocal(store, time.Now), slog.New(slog.DiscardHandler))
	f.ready = func() error { return errors.New("not ready") }
	f.check()
	if f.attempt(t.Context()) || store.Newest().Number != 0 {
		t.Errorf("version %d while the node is not ready, want none and another attempt", store.Newest().Number)
	}
	f.ready = func() error { return nil }
	if !f.attempt(t.Context()) || store.Newest().Number != 1 {
		t.Errorf("version %d when the node is ready, want 1", store.Newest().Number)
	}
}

// The log of a cluster can be ahead of the store of the node whose file is read.
func TestRulesFile_NewestOfTheLog(t *testing.T) {
	ahead := ruleset.NewStore()
	leader := ruleset.NewLocal(ahead, time.Now)
	for _, limit := range []string{"a", "b"} {
		if _, err := leader.Propose(t.Context(), ruleset.Proposal{Text: textOfRules(limit)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ limit, want string }{ // in this order: the last one adds a version
		{"a", "the text of an earlier version and has no effect"},
		{"b", "the rules file is active"},
		{"c", "the rules file is active"},
	} {
		path := filepath.Join(t.TempDir(), "rules.yaml")
		writeFile(t, path, textOfRules(tt.limit))
		var log bytes.Buffer
		f := newRulesFile(path, ruleset.NewStore(), leader, slog.New(slog.NewTextHandler(&log, nil)))
		f.check()
		if !f.attempt(t.Context()) || !strings.Contains(log.String(), tt.want) {
			t.Errorf("with the file of limit %s, the log does not contain %q:\n%s", tt.limit, tt.want, &log)
		}
	}
}
