package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/acl"
	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/options"
)

// exchangeForm is a command and its expected reply.
type exchangeForm struct {
	words []string
	want  string
}

var commandForms = []exchangeForm{
	{words("PING a b"), failure(errArity("ping"))},
	{[]string{"ECHO", strings.Repeat("e", 64<<10)}, bulk(strings.Repeat("e", 64<<10))},
	{words("SELECT 0"), "+OK\r\n"},
	{words("SELECT 1"), failure(errDBIndex)},
	{words("SELECT -1"), failure(errDBIndex)},
	{words("SELECT abc"), failure(errNotInteger)},
	{words("SELECT 99999999999999999999"), failure(errNotInteger)},
	{words("CONFIG SET dir /etc"), protected("dir")},
	{words("CONFIG SET dbfilename x"), protected("dbfilename")},
	{words("CONFIG SET logfile /etc/x"), "-ERR CONFIG SET failed (possibly related to argument 'logfile') - a client can set logfile only to a file in the working directory or in the directory of the configured logfile: for another directory, change the configuration file and send SIGHUP\r\n"},
	{words("CONFIG SET maxclients 5 dir /etc"), protected("dir")},
	{words("CONFIG REWRITE"), failure(errNoConfigFile)},
	{words("SLAVEOF a 1"), unknown("SLAVEOF", "a", "1")},
	{words("REPLICAOF a 1"), unknown("REPLICAOF", "a", "1")},
	{words("MODULE LOAD x"), failure(errNoModules)},
	{words("MIGRATE a 1 k 0 1"), unknown("MIGRATE", "a", "1", "k", "0", "1")},
	{words("RESTORE k 0 x"), unknown("RESTORE", "k", "0", "x")},
	{words("DEBUG SEGFAULT"), unknown("DEBUG", "SEGFAULT")},
	{words("DEBUG SLEEP 10"), unknown("DEBUG", "SLEEP", "10")},
	{words("SCRIPT FLUSH"), failure(errNoScripts)},
	{words("EVAL return 0"), failure(errNoScripts)},
	{words("FUNCTION LIST"), failure(errNoScripts)},
	{words("ACL LOAD"), failure(errNoUsersFile)},
	{words("SCAN 0 COUNT " + most64), "*2\r\n$1\r\n0\r\n*0\r\n"},
	{words("SCAN 0 COUNT 0"), failure(errSyntax)},
	{words("SCAN -1"), failure(errCursor)},
	{words("SCAN 18446744073709551616"), failure(errCursor)},
	{words("KEYS *"), "*0\r\n"},
	{words("BLPOP k 0"), unknown("BLPOP", "k", "0")},
	{words("EXEC"), failure(errExecNoMulti)},
	{[]string{"CLIENT", "SETNAME", strings.Repeat("n", 64<<10)}, failure(errClientName)},
	{[]string{"CLIENT", "SETNAME", "\x1b[31m"}, failure(errClientName)},
	{[]string{"CLIENT", "SETINFO", "LIB-NAME", "a b"}, "-ERR lib-name cannot contain spaces, newlines or special characters.\r\n"},
	{words("CLIENT KILL ADDR x"), ":0\r\n"},
	{words("CLIENT KILL x"), failure(errNoSuchClient)},
	{words("CLIENT KILL ID 0"), "-ERR client-id should be greater than 0\r\n"},
	{words("CLIENT PAUSE " + most64), "-ERR timeout is not an integer or out of range\r\n"},
	{words("AUTH x"), failure(errNoPassword)},
	{words("ACL SETUSER x ((((("), "-ERR Error in ACL SETUSER modifier '(((((': " + acl.ErrSelector.Error() + "\r\n"},
}

func protected(option string) string {
	return fmt.Sprintf("-ERR CONFIG SET failed (possibly related to argument '%s') - can't set protected config\r\n", option)
}

// TestCommandForms sends commands that have been used to attack Redis. Each command must get the expected reply, and
// must not affect the next one.
func TestCommandForms(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.dial()
	before := *s.opts.Get()
	for _, f := range commandForms {
		p.do(f.want, f.words...)
	}
	p.do("$-1\r\n", "CLIENT", "GETNAME")
	if after := *s.opts.Get(); after.MaxClients != before.MaxClients || after.Dir != before.Dir {
		t.Errorf("a refused CONFIG SET changed maxclients to %d, dir to %s", after.MaxClients, after.Dir)
	}
}

// TestPipelinedDocuments repeats the commands with the longest replies many times in one pipeline. All replies must
// arrive in order.
func TestPipelinedDocuments(t *testing.T) {
	t.Parallel()
	p := start(t, nil).dial()
	const n = 100
	round := request("COMMAND") + request("COMMAND", "DOCS") + request("COMMAND", "COUNT") +
		request("INFO", "everything") + request("CLIENT", "LIST")
	go func() { _, _ = p.Write([]byte(strings.Repeat(round, n))) }()
	for range n {
		for i, kind := range "**:$$" {
			if v := p.read(); v.kind != byte(kind) {
				t.Fatalf("reply %d of a round is of type %q, want %q", i, v.kind, kind)
			}
		}
	}
	p.do("+PONG\r\n", "PING")
}

// TestSecretsStayHidden checks that neither a reply nor the log contains the password.
func TestSecretsStayHidden(t *testing.T) {
	t.Parallel()
	const canary = "canary-b2f0"
	var log lockedLog
	s := setup{log: log.logger(), options: func(o *options.Options) {
		o.RequirePass = canary
		o.SlowlogLogSlowerThan = 0
		o.LogLevel = "debug"
	}}.start(t)
	wrong := s.dial()
	wrong.do(failure(errWrongPass), "AUTH", canary+"x")
	wrong.do(failure(errWrongPass), "AUTH", canary, canary)
	p := s.dial()
	p.do("+OK\r\n", "AUTH", canary)
	p.do("+OK\r\n", "CONFIG", "SET", "requirepass", canary)
	if v, found := p.ask("CONFIG", "GET", "*").field("requirepass"); !found || v.text != "" {
		t.Errorf("CONFIG GET requirepass returned %s, want an empty text", v)
	}
	shown := p.ask("CONFIG", "GET", "*").String() + p.ask("INFO", "everything").text + p.ask("CLIENT", "LIST").text +
		p.ask("SLOWLOG", "GET", "-1").String() + p.ask("ACL", "LOG").String() + log.String()
	if strings.Contains(shown, canary) {
		t.Errorf("the password is in a reply or in the log: %s", shown)
	}
	if !strings.Contains(shown, "(redacted)") || !strings.Contains(log.String(), "wrong password") {
		t.Errorf("want (redacted) in a reply or in the log, and \"wrong password\" in the log, got %s", shown)
	}
}

// TestPatterns uses SCAN and KEYS with patterns for which a matcher that backtracks would be slow.
func TestPatterns(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.dial()
	p.ask("CL.THROTTLE", strings.Repeat("a", 1000), "1", "1", "3600")
	for _, pattern := range []string{
		strings.Repeat("a*", 32<<10) + "b",
		strings.Repeat("*a", 32<<10) + "b",
		strings.Repeat("a]", 32<<10) + "*c",
		strings.Repeat("[", 64<<10),
		strings.Repeat("\\", 64<<10),
	} {
		p.do("*2\r\n$1\r\n0\r\n*0\r\n", "SCAN", "0", "MATCH", pattern)
		p.do("*0\r\n", "KEYS", pattern)
	}
	if got := p.ask("SCAN", "0", "COUNT", most64, "MATCH", strings.Repeat("a*", 100)).list[1]; len(got.list) != 1 {
		t.Errorf("SCAN returns %d keys, want 1", len(got.list))
	}
}

// TestUnauthenticatedCommands sends every command without authenticating. Only commands with the flag noAuth may get a
// reply other than NOAUTH.
func TestUnauthenticatedCommands(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	s := setup{options: withPassword, stop: func(bool) { close(stopped) }}.start(t)
	for _, cmd := range s.commands[onRedis].every {
		if cmd.is(noAuth) || len(cmd.subs) > 0 && cmd.run == nil {
			continue
		}
		call := strings.Split(cmd.name, "|")
		for len(call) < max(cmd.arity, -cmd.arity) {
			call = append(call, "1")
		}
		if got := s.dial().ask(call...); got.kind != '-' || !strings.Contains(got.text, string(errNoAuth)) {
			t.Errorf("%q without authentication: got %s, want the error NOAUTH", call, got)
		}
	}
	select {
	case <-stopped:
		t.Error("an unauthenticated client shut the server down")
	default:
	}
	if u := s.engine.Usage(); u.Keys+u.Hits+u.Misses != 0 {
		t.Errorf("unauthenticated commands reached the engine: %+v", u)
	}
}

// TestNothingIsHalfDone checks that MULTI, WATCH, SUBSCRIBE and MONITOR leave no state behind if the connection fails.
func TestNothingIsHalfDone(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	f := func(kind byte, words ...string) {
		t.Helper()
		p := s.dial()
		if v := p.ask(words...); v.kind != kind {
			t.Fatalf("%q: got %s, want a reply of type %q", words, v, kind)
		}
		p.send("*1\r\n:\r\n")
		if rest := p.rest(); !strings.HasSuffix(rest, refused("expected '$', got ':'")) {
			t.Fatalf("%q, then a protocol error: got %q, want the error for the wrong type at the end", words, rest)
		}
	}
	f('+', "MULTI")
	f('+', "WATCH", "k")
	f('*', "SUBSCRIBE", "c")
	f('+', "MONITOR")
	p := s.greet()
	p.await("clients", "connected_clients", 1)
	info := p.info("clients")
	for _, name := range []string{"pubsub_clients", "monitor_clients", "tracking_clients"} {
		if info[name] != "0" {
			t.Errorf("%s is %s, want 0", name, info[name])
		}
	}
}

// TestMutedReplies checks that replies suppressed by CLIENT REPLY OFF do not stay in memory.
func TestMutedReplies(t *testing.T) {
	p := start(t, nil).dial()
	before := liveHeap()
	p.send(request("CLIENT", "REPLY", "OFF"))
	const n = 2000
	p.send(strings.Repeat(request("ECHO", strings.Repeat("x", 10_000)), n))
	p.do("+OK\r\n", "CLIENT", "REPLY", "ON")
	if grown := liveHeap() - before; grown > 4<<20 {
		t.Errorf("%d suppressed replies left %d bytes on the heap, want at most 4 MiB", n, grown)
	}
	p.do("+PONG\r\n", "PING")
}

// TestQuitInPipeline checks that no command after QUIT runs.
func TestQuitInPipeline(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.dial()
	p.send(request("CL.THROTTLE", "a", "1", "1", "3600") + request("QUIT") + request("CL.THROTTLE", "b", "1", "1", "3600") + ping)
	p.expect(five(0, 2, 1, -1, 3600) + "+OK\r\n")
	p.closed()
	s.dial().do("*1\r\n$1\r\na\r\n", "KEYS", "*")
}

// TestOddPasswords sends wrong passwords of many forms, and checks that AUTH refuses them.
func TestOddPasswords(t *testing.T) {
	t.Parallel()
	s := start(t, withPassword)
	for _, words := range [][]string{
		{"AUTH", strings.Repeat("p", 16<<10)},
		{"AUTH", "secret\x00"},
		{"AUTH", "\x00secret"},
		{"AUTH", ""},
		{"AUTH", "", ""},
		{"AUTH", "", "secret"},
		{"AUTH", "default", ""},
		{"AUTH", "DEFAULT", "secret"},
		{"AUTH", "SECRET"},
	} {
		s.dial().do(failure(errWrongPass), words...)
	}
	long := s.dial()
	long.send(request("AUTH", strings.Repeat("p", 64<<10)))
	long.expect(refused("unauthenticated bulk length"))
	long.closed()
	s.dial().do("+OK\r\n", "AUTH", "default", "secret")
}

// TestRightsOfTheLastSuccess checks that a failed AUTH does not revoke an earlier authentication, and that each of many
// HELLO commands switches the protocol.
func TestRightsOfTheLastSuccess(t *testing.T) {
	t.Parallel()
	p := start(t, withPassword).dial()
	p.do("+OK\r\n", "AUTH", "secret")
	p.do(failure(errWrongPass), "AUTH", "bad")
	p.do("+PONG\r\n", "PING")
	p.do(failure(errWrongPass), "AUTH", "other", "secret")
	p.do("+PONG\r\n", "PING")
	const n = 2000
	go func() {
		_, _ = p.Write([]byte(strings.Repeat(request("HELLO", "3")+request("CLIENT", "GETNAME")+request("HELLO", "2")+request("CLIENT", "GETNAME"), n)))
	}()
	for i := range 2 * n {
		kinds := "%_"
		if i%2 == 1 {
			kinds = "*$"
		}
		if hello, name := p.read(), p.read(); hello.kind != kinds[0] || name.kind != kinds[1] {
			t.Fatalf("round %d: the replies to HELLO and CLIENT GETNAME have the types %q and %q, want %q", i, hello.kind, name.kind, kinds)
		}
	}
	p.do("+RESET\r\n", "RESET")
	p.do(failure(errNoAuth), "PING")
}

// TestEveryErrorIsOneLine sends arguments with line breaks to commands that quote their arguments in errors. The
// reply must be a single error of one line.
func TestEveryErrorIsOneLine(t *testing.T) {
	t.Parallel()
	const evil = "x\r\n+OK\r\n"
	p := start(t, nil).dial()
	for _, words := range [][]string{
		{evil}, {evil, evil}, {"CLIENT", evil}, {"CONFIG", "SET", evil, evil}, {"CONFIG", "SET", "maxclients", evil},
		{"HELLO", "3", evil}, {"CLIENT", "SETINFO", evil, evil}, {"CLIENT", "KILL", "USER", evil}, {"CLIENT", "LIST", "TYPE", evil},
		{"CLIENT", "KILL", "TYPE", evil}, {"OBJECT", evil, evil}, {"COMMAND", evil, evil},
	} {
		if v := p.ask(words...); v.kind != '-' {
			t.Errorf("%q: got %s, want an error", words, v)
		}
		p.do("+PONG\r\n", "PING")
	}
}

// TestEngineErrors checks that the client gets a generic error if the engine fails with an unexpected error.
func TestEngineErrors(t *testing.T) {
	t.Parallel()
	s := setup{engine: failing{buckets.New(buckets.Config{Shards: 1}), errors.New("disk on fire\r\n+OK")}}.start(t)
	p := s.dial()
	p.do(failure(errInternal), "CL.THROTTLE", "k", "1", "1", "1")
	p.do("+PONG\r\n", "PING")
}
