package rediscli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/resp"
)

// isOwn reports whether a command does not exist in Redis 7.0.
func isOwn(name string) bool {
	return strings.HasPrefix(name, "cl.") || name == "client|no-touch" || name == "client|setinfo" ||
		name == "client|maint_notifications"
}

// isRefused reports whether a command always returns an error that explains why it is not
// supported.
func isRefused(name string) bool {
	refused := []string{
		"eval", "evalsha", "eval_ro", "evalsha_ro", "script", "function", "fcall", "fcall_ro",
		"expire", "expireat", "persist", "pexpire", "pexpireat", "module|load", "module|loadex", "module|unload",
	}
	return slices.Contains(refused, name)
}

// isScripting reports whether a command runs or manages scripts.
func isScripting(name string) bool {
	return name == "script" || name == "function" || strings.HasPrefix(name, "eval") || strings.HasPrefix(name, "fcall")
}

// TestCorpusIsComplete checks that the scripts include every command.
func TestCorpusIsComplete(t *testing.T) {
	checkAllSent(t, corpus(t), commandNames(t, connect(t, startInProcess(t, &section{}))))
}

// checkAllSent reports the commands that no script includes.
func checkAllSent(t testing.TB, scripts []*script, names []string) {
	t.Helper()
	sent := map[string]bool{}
	for _, s := range scripts {
		for _, sec := range s.sections {
			for _, st := range sec.steps {
				if words, err := resp.SplitLine(nil, []byte(st.text)); err == nil && st.kind == send {
					sent[strings.ToLower(string(words[0]))] = true
					if len(words) > 1 {
						sent[strings.ToLower(string(words[0])+"|"+string(words[1]))] = true
					}
				}
			}
		}
	}
	for _, name := range names {
		if !sent[name] {
			t.Errorf("no script includes the command %s", strings.ReplaceAll(name, "|", " "))
		}
	}
}

// connect opens a connection until the end of the test.
func connect(t testing.TB, where place) *wire {
	t.Helper()
	w, err := dial(where.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.conn.Close() })
	return w
}

// commandNames returns the names of all commands and subcommands.
func commandNames(t testing.TB, w *wire) (names []string) {
	t.Helper()
	list, err := w.ask("COMMAND LIST FILTERBY PATTERN *")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	if !slices.Contains(names, "client|id") {
		t.Fatalf("COMMAND LIST does not contain client|id: %s", list)
	}
	return names
}

// TestCommandInfoSideBySide compares the reply to COMMAND INFO for each command with the
// reply of Redis. Subcommands are compared individually.
func TestCommandInfoSideBySide(t *testing.T) {
	us, redis := connect(t, startInProcess(t, &section{})), connect(t, startRedis(t))
	for _, name := range commandNames(t, us) {
		// Redis does not have the commands that isOwn selects. On the port for Redis clients, CLUSTER and
		// the scripting commands of this server have no subcommands and no keys.
		if isOwn(name) || name == "cluster" || isScripting(name) {
			continue
		}
		var replies [2]string
		for i, w := range []*wire{us, redis} {
			all, err := w.ask("COMMAND INFO " + name)
			if err != nil {
				t.Fatal(err)
			}
			replies[i], _, _ = strings.Cut(all, `["`+name+`|`)
		}
		if replies[0] != replies[1] {
			t.Errorf("the replies to COMMAND INFO %s differ:\nours  %s\nRedis %s", name, replies[0], replies[1])
		}
	}
}

// TestPointlessArgumentsSideBySide sends each command that both servers support to each
// server, with invalid arguments. The replies of the two servers must have the same bytes.
func TestPointlessArgumentsSideBySide(t *testing.T) {
	// Without arguments, these commands return varying values, stop the server, block other
	// commands, or have other replies than Redis: users have domains, and no configuration file.
	unsafeWithoutArguments := []string{
		"acl|cat", "acl|list", "acl|load", "acl|save", "bgsave", "client|id", "client|info", "client|list", "command", "command|count", "command|docs", "command|info",
		"command|list", "hello", "info", "lastsave", "latency|doctor", "latency|histogram", "memory|doctor", "memory|malloc-stats",
		"memory|stats", "module|list", "shutdown", "slowlog|get", "slowlog|len", "time",
	}
	here, there := startInProcess(t, &section{}), startRedis(t)
	// Commands that are slow on a busy machine must not be in the slow log of only one server.
	compare(t, here, there, "config set slowlog-log-slower-than -1")
	for _, name := range commandNames(t, connect(t, here)) {
		if isOwn(name) || name == "cluster" || name == "acl|genpass" || isRefused(name) { // random passwords
			continue
		}
		command := strings.ReplaceAll(name, "|", " ")
		t.Run(command, func(t *testing.T) {
			for _, arguments := range []string{"x", "x y", "x y z", "1", "1 2", "1 2 3", "1 2 3 4", "0 0", "-"} {
				compare(t, here, there, command+" "+arguments)
			}
			if !slices.Contains(unsafeWithoutArguments, name) && !strings.HasSuffix(name, "|help") {
				compare(t, here, there, command)
			}
		})
	}
}

// compare sends a command to two servers on new connections, and reports different replies.
func compare(t testing.TB, here, there place, command string) {
	t.Helper()
	var replies [2]string
	for i, where := range []place{here, there} {
		w, err := dial(where.addr)
		if err != nil {
			t.Fatal(err)
		}
		replies[i], err = w.ask(command)
		if err != nil {
			t.Fatalf("send %s: %v", command, err)
		}
		_ = w.conn.Close()
	}
	if replies[0] != replies[1] {
		t.Errorf("the replies to %s differ:\nours  %s\nRedis %s", command, replies[0], replies[1])
	}
}
