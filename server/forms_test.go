package server

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/options"
)

// form is a way to call CL.THROTTLE, on a key of its own. The ids are those of the
// project's list of command forms.
type form struct {
	id    string
	words []string // behind the name
	want  string
	keys  int64 // that are there afterwards
}

func words(line string) []string { return strings.Split(line, " ") }

const most64 = "9223372036854775807"

var throttleForms = []form{
	{id: "S1", want: failure(errArity("cl.throttle"))},
	{id: "S2", words: words("k"), want: failure(errArity("cl.throttle"))},
	{id: "S3", words: words("k 1 1"), want: failure(errArity("cl.throttle"))},
	{id: "S4", words: words("k 1 1 1 1 1"), want: failure(errArity("cl.throttle"))},

	// Keys are any bytes.
	{id: "S6", words: []string{"", "1", "1", "1"}, want: five(0, 2, 1, -1, 1), keys: 1},
	{id: "S7", words: []string{strings.Repeat("k", 1024), "1", "1", "1"}, want: five(0, 2, 1, -1, 1), keys: 1},
	{id: "S8", words: []string{strings.Repeat("k", 512<<10), "1", "1", "1"}, want: five(0, 2, 1, -1, 1), keys: 1},
	{id: "S9", words: []string{"\x00\xff\r\n\x1b[31m", "1", "1", "1"}, want: five(0, 2, 1, -1, 1), keys: 1},
	{id: "S10 braces", words: words("{a}b 1 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},
	{id: "S10 star", words: words("user:* 1 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},
	{id: "S10 format", words: words("%s%n 1 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},
	{id: "S10 path", words: words("../../etc 1 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},
	{id: "S10 lookup", words: words("${jndi:x} 1 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},

	// Bursts.
	{id: "S11", words: words("k -1 1 1"), want: failure(errNotInteger)},
	{id: "S12", words: words("k 0 1 1"), want: five(0, 1, 0, -1, 1), keys: 1},
	{id: "S13 plus", words: words("k +1 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},
	{id: "S13 zeros", words: words("k 01 1 1"), want: five(0, 2, 1, -1, 1), keys: 1},
	{id: "S14", words: words("k " + most64 + " 1 1"), want: failure(errNotInteger)},
	{id: "S15 above", words: words("k 9223372036854775808 1 1"), want: failure(errNotInteger)},
	{id: "S15 below", words: words("k -9223372036854775808 1 1"), want: failure(errNotInteger)},
	{id: "S15 far", words: words("k 99999999999999999999999 1 1"), want: failure(errNotInteger)},

	// Counts.
	{id: "S16", words: words("k 1 0 1"), want: failure(errNotInteger)},
	{id: "S17", words: words("k 1 -5 1"), want: failure(errNotInteger)},
	{id: "S18", words: words("k 1 " + most64 + " 1"), want: five(0, 2, 1, -1, 1), keys: 1},

	// Periods.
	{id: "S22", words: words("k 1 1 0"), want: failure(errNotInteger)},
	{id: "S23", words: words("k 1 1 -1"), want: failure(errNotInteger)},
	{id: "S24", words: words("k 0 1 9223372036"), want: five(0, 1, 0, -1, 9223372036), keys: 1},
	{id: "S24 twice", words: words("k 1 1 9223372036"), want: failure(errNotInteger)},
	{id: "S25", words: words("k 0 1 9223372037"), want: failure(errNotInteger)},
	{id: "S25 most", words: words("k 0 1 " + most64), want: failure(errNotInteger)},
	{id: "S26", words: words("k 9223372036854775806 1 86400"), want: failure(errNotInteger)},

	// Quantities.
	{id: "S27", words: words("k 1 1 86400 200000000"), want: five(1, 2, 2, -1, 0)},
	{id: "S28", words: words("k 1 1 1 0"), want: five(0, 2, 2, -1, 0)},
	{id: "S29", words: words("k 1 1 1 -1"), want: five(0, 2, 2, -1, 0)},
	{id: "S29 most", words: words("k 1 1 1 -9223372036854775808"), want: five(0, 2, 2, -1, 0)},
	{id: "S30", words: words("k 1 1 1 3"), want: five(1, 2, 2, -1, 0)},
	{id: "S31", words: words("k 1 1 1 " + most64), want: five(1, 2, 2, -1, 0)},
	{id: "S32 empty", words: []string{"k", "1", "1", "1", ""}, want: failure(errNotInteger)},
}

// notNumbers is what no number may look like (S13, S32).
var notNumbers = []string{" 1", "1 ", "1.0", "1.5", "1e3", "0x10", "1_000", "", "+", "-", "+-1", "NaN", "inf", "abc", "١", "−1", "1\x00", "1\r\n"}

func TestThrottleForms(t *testing.T) {
	t.Parallel()
	s, _ := startFrozen(t, func(o *options.Options) { o.ClientQueryBufferLimit = 2 << 20 })
	p := s.dial()
	for _, f := range throttleForms {
		p.do("+OK\r\n", "FLUSHALL")
		p.do(f.want, append([]string{"CL.THROTTLE"}, f.words...)...)
		if keys := p.ask("DBSIZE").int(); keys != f.keys {
			t.Errorf("%s: %d keys, want %d", f.id, keys, f.keys)
		}
	}
	for _, text := range notNumbers {
		for at := 2; at <= 5; at++ {
			call := []string{"CL.THROTTLE", "k", "1", "1", "1", "1"}
			call[at] = text
			p.do("+OK\r\n", "FLUSHALL")
			p.do(failure(errNotInteger), call...)
			p.do(":0\r\n", "DBSIZE")
		}
	}
	p.send(request("CL.THROTTLE", strings.Repeat("k", 512<<10+1), "1", "1", "1"))
	p.expect(badLength)
	p.closed()
}

// TestThrottleNames sees that the case of the name does not matter (S5).
func TestThrottleNames(t *testing.T) {
	t.Parallel()
	s, _ := startFrozen(t, nil)
	p := s.dial()
	for i, name := range []string{"cl.ThRoTtLe", "CL.THROTTLE", "cl.throttle"} {
		p.do(five(0, 2, 1, -1, 1), name, strconv.Itoa(i), "1", "1", "1")
	}
	p.fails("ERR unknown command 'CL.THROTTL'", "CL.THROTTL", "k", "1", "1", "1")
	p.fails("ERR unknown command 'CL.THROTTLE '", "CL.THROTTLE ", "k", "1", "1", "1")
}

// TestThrottleRates offers twice a rate for a while and counts what is admitted (S19).
func TestThrottleRates(t *testing.T) {
	t.Parallel()
	f := func(burst, rate int64, span time.Duration) {
		t.Helper()
		s, clock := startFrozen(t, nil)
		p := s.dial()
		call := request("CL.THROTTLE", "k", strconv.FormatInt(burst, 10), strconv.FormatInt(rate, 10), "1")
		gap := time.Second / time.Duration(2*rate)
		admitted := int64(0)
		for passed := time.Duration(0); passed < span; passed += gap {
			p.send(call)
			admitted += 1 - p.read().list[0].int()
			clock.advance(gap)
		}
		want := burst + 1 + int64(span.Seconds()*float64(rate))
		if admitted > want || float64(admitted) < 0.99*float64(want) {
			t.Errorf("burst %d, rate %d: %d admitted in %v, want %d", burst, rate, admitted, span, want)
		}
	}
	f(0, 2000, time.Second)
	f(0, 8000, time.Second/4)
	f(100, 1_000_000, 2*time.Millisecond)
}

// TestThrottleAtOnce counts what a full bucket admits at one instant, and afterwards
// (S20, S21).
func TestThrottleAtOnce(t *testing.T) {
	t.Parallel()
	s, clock := startFrozen(t, nil)
	p := s.dial()
	// admit sends n calls and returns how many were admitted; remaining has to count down.
	admit := func(n int, params ...string) (admitted int64) {
		t.Helper()
		p.send(strings.Repeat(request(append([]string{"CL.THROTTLE"}, params...)...), n))
		last := int64(math.MaxInt64)
		for range n {
			d := p.read().list
			if d[2].int() > last {
				t.Fatalf("remaining goes from %d up to %d", last, d[2].int())
			}
			last = d[2].int()
			admitted += 1 - d[0].int()
		}
		return admitted
	}
	if got := admit(7000, "a", "6000", "6000", "1"); got != 6001 {
		t.Errorf("6000 6000 1: %d at once, want 6001", got)
	}
	clock.advance(time.Second)
	if got := admit(7000, "a", "6000", "6000", "1"); got < 5999 || got > 6000 {
		t.Errorf("6000 6000 1: %d a second later, want 6000", got)
	}
	if got := admit(2000, "b", "1000", "1000", "60"); got != 1001 {
		t.Errorf("1000 1000 60: %d at once, want 1001", got)
	}
}

// TestThrottleParameters changes the parameters of a key in use (S33): what it has used
// stays used, and no call is admitted that its own limit forbids.
func TestThrottleParameters(t *testing.T) {
	t.Parallel()
	s, clock := startFrozen(t, nil)
	p := s.dial()
	for range 6 {
		p.ask("CL.THROTTLE", "k", "10", "10", "60")
	}
	p.do(five(0, 11, 4, -1, 42), "CL.THROTTLE", "k", "10", "10", "60")
	p.do(five(1, 2, 0, 41, 42), "CL.THROTTLE", "k", "1", "1", "1")
	p.do(five(1, 2, 0, 40, 42), "CL.THROTTLE", "k", "1", "1", "1", "0")
	p.do(five(0, 1001, 958, -1, 43), "CL.THROTTLE", "k", "1000", "1", "1")
	p.do(five(0, 11, 2, -1, 49), "CL.THROTTLE", "k", "10", "10", "60")
	clock.advance(49 * time.Second)
	p.do(five(0, 2, 1, -1, 1), "CL.THROTTLE", "k", "1", "1", "1")
}

// TestRefusalsChangeNothing refuses one key very often (S34).
func TestRefusalsChangeNothing(t *testing.T) {
	t.Parallel()
	s, _ := startFrozen(t, nil)
	p := s.dial()
	p.do(five(0, 1, 0, -1, 100), "CL.THROTTLE", "k", "0", "1", "100")
	before := p.info("memory")["used_memory_dataset"]
	const n = 30_000
	go func() { _, _ = p.Write([]byte(strings.Repeat(request("CL.THROTTLE", "k", "0", "1", "100"), n))) }()
	for range n {
		p.expect(five(1, 1, 0, 100, 100))
	}
	p.do(":100000\r\n", "PTTL", "k")
	p.do(":1\r\n", "DBSIZE")
	if after := p.info("memory")["used_memory_dataset"]; after != before {
		t.Errorf("the state takes %s bytes, before %s", after, before)
	}
}

// exchangeForm is a command of any kind and its reply.
type exchangeForm struct {
	id    string
	words []string
	want  string
}

var commandForms = []exchangeForm{
	{"S35", words("PING a b"), failure(errArity("ping"))},
	{"S36", []string{"ECHO", strings.Repeat("e", 64<<10)}, bulk(strings.Repeat("e", 64<<10))},
	{"S37", words("SELECT 0"), "+OK\r\n"},
	{"S37", words("SELECT 1"), failure(errDBIndex)},
	{"S37", words("SELECT -1"), failure(errDBIndex)},
	{"S37", words("SELECT abc"), failure(errNotInteger)},
	{"S37", words("SELECT 99999999999999999999"), failure(errNotInteger)},
	{"S40", words("CONFIG SET dir /etc"), protected("dir")},
	{"S40", words("CONFIG SET dbfilename x"), protected("dbfilename")},
	{"S40", words("CONFIG SET logfile /etc/x"), protected("logfile")},
	{"S40", words("CONFIG SET maxclients 5 dir /etc"), protected("dir")},
	{"S40", words("CONFIG REWRITE"), failure(errNoConfigFile)},
	{"S41", words("SLAVEOF a 1"), unknown("SLAVEOF", "a", "1")},
	{"S41", words("REPLICAOF a 1"), unknown("REPLICAOF", "a", "1")},
	{"S41", words("MODULE LOAD x"), unknown("MODULE", "LOAD", "x")},
	{"S41", words("MIGRATE a 1 k 0 1"), unknown("MIGRATE", "a", "1", "k", "0", "1")},
	{"S41", words("RESTORE k 0 x"), unknown("RESTORE", "k", "0", "x")},
	{"S41", words("DEBUG SEGFAULT"), unknown("DEBUG", "SEGFAULT")},
	{"S41", words("DEBUG SLEEP 10"), unknown("DEBUG", "SLEEP", "10")},
	{"S41", words("SCRIPT FLUSH"), unknown("SCRIPT", "FLUSH")},
	{"S41", words("EVAL return 0"), unknown("EVAL", "return", "0")},
	{"S41", words("FUNCTION LIST"), unknown("FUNCTION", "LIST")},
	{"S41", words("ACL LOAD"), unknown("ACL", "LOAD")},
	{"S42", words("SCAN 0 COUNT " + most64), "*2\r\n$1\r\n0\r\n*0\r\n"},
	{"S42", words("SCAN 0 COUNT 0"), failure(errSyntax)},
	{"S42", words("SCAN -1"), failure(errCursor)},
	{"S42", words("SCAN 18446744073709551616"), failure(errCursor)},
	{"S42", words("KEYS *"), "*0\r\n"},
	{"S44", words("BLPOP k 0"), unknown("BLPOP", "k", "0")},
	{"S44", words("EXEC"), failure(errExecNoMulti)},
	{"S45", []string{"CLIENT", "SETNAME", strings.Repeat("n", 64<<10)}, failure(errClientName)},
	{"S45", []string{"CLIENT", "SETNAME", "\x1b[31m"}, failure(errClientName)},
	{"S45", []string{"CLIENT", "SETINFO", "LIB-NAME", "a b"}, "-ERR lib-name cannot contain spaces, newlines or special characters.\r\n"},
	{"S47", words("CLIENT KILL ADDR x"), ":0\r\n"},
	{"S47", words("CLIENT KILL x"), failure(errNoSuchClient)},
	{"S47", words("CLIENT KILL ID 0"), "-ERR client-id should be greater than 0\r\n"},
	{"S47", words("CLIENT PAUSE " + most64), "-ERR unknown subcommand 'PAUSE'. Try CLIENT HELP.\r\n"},
	{"S49", words("AUTH x"), failure(errNoPassword)},
	{"S51", words("ACL SETUSER x ((((("), unknown("ACL", "SETUSER", "x", "(((((")},
}

func protected(option string) string {
	return fmt.Sprintf("-ERR CONFIG SET failed (possibly related to argument '%s') - can't set protected config\r\n", option)
}

// TestCommandForms sends commands that Redis has been attacked with. None of them has an
// effect on the next.
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
		t.Errorf("a refused CONFIG SET has changed maxclients to %d, dir to %s", after.MaxClients, after.Dir)
	}
}

// TestPipelinedDocuments asks for the longest replies very often and reads slowly (S38).
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
				t.Fatalf("reply %d is of type %q, want %q", i, v.kind, kind)
			}
		}
	}
	p.do("+PONG\r\n", "PING")
}

// TestSecretsStayHidden looks for the password wherever a client can look (S39, S49).
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
		t.Errorf("CONFIG GET shows the password as %s", v)
	}
	shown := p.ask("CONFIG", "GET", "*").String() + p.ask("INFO", "everything").text + p.ask("CLIENT", "LIST").text +
		p.ask("SLOWLOG", "GET", "-1").String() + log.String()
	if strings.Contains(shown, canary) {
		t.Errorf("the password is in %s", shown)
	}
	if !strings.Contains(shown, "(redacted)") || !strings.Contains(log.String(), "wrong password") {
		t.Errorf("nothing tells of the password having been used: %s", shown)
	}
}

// TestPatterns matches patterns that were made to take long (S42).
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
		t.Errorf("SCAN finds %d keys, want 1", len(got.list))
	}
}

// TestGuestsMayNothing sends every command of the table as a guest (S43). Only those
// that are for guests get anything but NOAUTH.
func TestGuestsMayNothing(t *testing.T) {
	t.Parallel()
	stopped := make(chan struct{})
	s := setup{options: withPassword, stop: func() { close(stopped) }}.start(t)
	for _, cmd := range s.commands.every {
		if cmd.is(noAuth) || len(cmd.subs) > 0 && cmd.run == nil {
			continue
		}
		call := strings.Split(cmd.name, "|")
		for len(call) < max(cmd.arity, -cmd.arity) {
			call = append(call, "1")
		}
		if got := s.dial().ask(call...); got.kind != '-' || !strings.Contains(got.text, string(errNoAuth)) {
			t.Errorf("%q: a guest gets %s", call, got)
		}
	}
	select {
	case <-stopped:
		t.Error("a guest has shut the server down")
	default:
	}
	if u := s.engine.Usage(); u.Keys+u.Hits+u.Misses != 0 {
		t.Errorf("guests have reached the engine: %+v", u)
	}
}

// TestNothingIsHalfDone leaves MULTI, WATCH, SUBSCRIBE and MONITOR without an end (S44).
func TestNothingIsHalfDone(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	f := func(kind byte, words ...string) {
		t.Helper()
		p := s.dial()
		if v := p.ask(words...); v.kind != kind {
			t.Fatalf("%q: got %s, want the type %q", words, v, kind)
		}
		p.send("*1\r\n:\r\n")
		if rest := p.rest(); !strings.HasSuffix(rest, refused("expected '$', got ':'")) {
			t.Fatalf("%q: got %q", words, rest)
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
			t.Errorf("%s is %s", name, info[name])
		}
	}
}

// TestMutedReplies drops replies without keeping them (S46).
func TestMutedReplies(t *testing.T) {
	p := start(t, nil).dial()
	before := liveHeap()
	p.send(request("CLIENT", "REPLY", "OFF"))
	const n = 2000
	p.send(strings.Repeat(request("ECHO", strings.Repeat("x", 10_000)), n))
	p.do("+OK\r\n", "CLIENT", "REPLY", "ON")
	if grown := liveHeap() - before; grown > 4<<20 {
		t.Errorf("%d muted replies have left %d bytes on the heap", n, grown)
	}
	p.do("+PONG\r\n", "PING")
}

// TestQuitInPipeline runs nothing behind QUIT (S48).
func TestQuitInPipeline(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.dial()
	p.send(request("CL.THROTTLE", "a", "1", "1", "3600") + request("QUIT") + request("CL.THROTTLE", "b", "1", "1", "3600") + ping)
	p.expect(five(0, 2, 1, -1, 3600) + "+OK\r\n")
	p.closed()
	s.dial().do("*1\r\n$1\r\na\r\n", "KEYS", "*")
}

// TestOddPasswords sends passwords of every kind (S49).
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

// TestRightsOfTheLastSuccess authenticates again and again and changes the protocol
// (S50).
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
			t.Fatalf("round %d: types %q and %q, want %q", i, hello.kind, name.kind, kinds)
		}
	}
	p.do("+RESET\r\n", "RESET")
	p.do(failure(errNoAuth), "PING")
}

// TestEveryErrorIsOneLine sends words with line ends to all that repeats them.
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

// TestEngineErrors sees that what an engine refuses becomes the error that clients know.
func TestEngineErrors(t *testing.T) {
	t.Parallel()
	s := setup{engine: failing{err: errors.New("disk on fire\r\n+OK")}}.start(t)
	p := s.dial()
	p.do(failure(errInternal), "CL.THROTTLE", "k", "1", "1", "1")
	p.do("+PONG\r\n", "PING")
}
