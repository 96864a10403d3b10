package server

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/options"
)

// TestSlowlog checks the entries of the slow log with a threshold of 0.
func TestSlowlog(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options.Options) { o.SlowlogLogSlowerThan, o.SlowlogMaxLen = -1, 10 })
	p, admin := s.dial(), s.dial()
	// newest returns the entries of the slow log, newest first. It then clears the log and sets the threshold to 0.
	newest := func() []value {
		t.Helper()
		entries := admin.ask("SLOWLOG", "GET", "-1").list
		admin.do("+OK\r\n", "CONFIG", "SET", "slowlog-log-slower-than", "-1")
		admin.do("+OK\r\n", "SLOWLOG", "RESET")
		admin.do(":0\r\n", "SLOWLOG", "LEN")
		admin.do("+OK\r\n", "CONFIG", "SET", "slowlog-log-slower-than", "0")
		return entries
	}
	f := func(want string, words ...string) {
		t.Helper()
		newest()
		p.ask(words...)
		// entries[0] is the command under test. The only older entry is the CONFIG SET at the end of the previous
		// call of newest: the new threshold already applies to the CONFIG SET that sets it.
		entries := newest()
		if len(entries) == 0 || strings.Join(entries[0].list[3].words(), " ") != want {
			t.Errorf("%.60q is logged as %s, want %s", words, entries, want)
		}
	}
	f("PING", "PING")
	f("AUTH (redacted)", "AUTH", "x")
	f("cl.throttle k", "CL.THROTTLE", "k", "1", "1", "60")
	f("EXISTS "+strings.Repeat("x", 128)+"... (72 more bytes)", "EXISTS", strings.Repeat("x", 200))
	many := strings.Fields("EXISTS" + strings.Repeat(" k", 50))
	f(strings.Join(many[:31], " ")+" ... (20 more arguments)", many...)
	f(strings.Join(many[:32], " "), many[:32]...)
	f("EXISTS \x00\r\n\xff", "EXISTS", "\x00\r\n\xff")

	newest()
	p.do("+OK\r\n", "CLIENT", "SETNAME", "me")
	entry := newest()[0].list
	if len(entry) != 6 || entry[4].text != p.LocalAddr().String() || entry[5].text != "me" {
		t.Errorf("the entry is %s, want the address and the name of the client", entry)
	}
	if at := entry[1].int(); at < time.Now().Unix()-60 || at > time.Now().Unix() || entry[2].int() < 0 {
		t.Errorf("the entry has the time %d, want a time in the last 60 seconds; it has the duration %d, want at least 0", at, entry[2].int())
	}

	// EXEC is not logged, but the commands of the transaction are.
	p.do("+OK\r\n", "MULTI")
	p.do("+QUEUED\r\n", "ECHO", "x")
	newest()
	p.do("*1\r\n$1\r\nx\r\n", "EXEC")
	if got := newest(); strings.Join(got[0].list[3].words(), " ") != "ECHO x" {
		t.Errorf("a transaction is logged as %s, want ECHO x as the newest entry", got)
	}

	// Only the newest entries are kept, and their ids keep increasing.
	for range 25 {
		p.do("+PONG\r\n", "PING")
	}
	admin.do(":10\r\n", "SLOWLOG", "LEN")
	if got := admin.ask("SLOWLOG", "GET").list; len(got) != slowlogDefault {
		t.Errorf("SLOWLOG GET shows %d entries, want slowlogDefault", len(got))
	}
	ids := []int64{}
	for _, e := range admin.ask("SLOWLOG", "GET", "3").list {
		ids = append(ids, e.list[0].int())
	}
	if len(ids) != 3 || ids[0] != ids[1]+1 || ids[1] != ids[2]+1 {
		t.Errorf("the entries have the ids %d, want three consecutive ids, the largest first", ids)
	}
	admin.fails("ERR count", "SLOWLOG", "GET", "-2")
	admin.fails("ERR count", "SLOWLOG", "GET", "x")
}

// TestLatency checks the reports of the latency monitor after one slow decision. In fake time, no other command is
// slow.
func TestLatency(t *testing.T) { synctest.Test(t, testLatency) }

func testLatency(t *testing.T) {
	engine := holding{buckets.New(buckets.Config{Shards: 8}), "slow", make(chan struct{}), make(chan struct{})}
	s, _ := setup{engine: engine, options: func(o *options.Options) { o.LatencyMonitorThreshold = time.Millisecond }}.startPiped(t)
	p, admin := s.dial(), s.dial()
	if got := admin.ask("LATENCY", "DOCTOR").text; !strings.Contains(got, "No event has taken 1ms") {
		t.Errorf("LATENCY DOCTOR before the slow decision: %q, want no events", got)
	}
	admin.do("*0\r\n", "LATENCY", "LATEST")
	p.send(request("CL.THROTTLE", "slow", "1", "1", "60"))
	<-engine.entered
	<-time.After(5 * time.Millisecond)
	close(engine.release)
	p.read()

	latest := admin.ask("LATENCY", "LATEST").list
	if len(latest) != 1 || len(latest[0].list) != 4 || latest[0].list[0].text != "command" || latest[0].list[2].int() < 5 || latest[0].list[3].int() < latest[0].list[2].int() {
		t.Errorf("LATENCY LATEST: %s, want one event of at least 5 ms", latest)
	}
	history := admin.ask("LATENCY", "HISTORY", "command").list
	if len(history) == 0 || history[0].list[1].int() < 5 {
		t.Errorf("LATENCY HISTORY: %s, want a sample of at least 5 ms", history)
	}
	admin.do("*0\r\n", "LATENCY", "HISTORY", "nothing")
	if got := admin.ask("LATENCY", "DOCTOR").text; !strings.HasPrefix(got, "command: ") {
		t.Errorf("LATENCY DOCTOR after the slow decision: %q, want a line about the event named command", got)
	}
	admin.do(":0\r\n", "LATENCY", "RESET", "nothing")
	admin.do(":1\r\n", "LATENCY", "RESET", "nothing", "command")

	histogram, found := admin.ask("LATENCY", "HISTOGRAM", "CL.THROTTLE").field("cl.throttle")
	if calls, _ := histogram.field("calls"); !found || calls.int() != 1 {
		t.Errorf("LATENCY HISTOGRAM: %s, want one call of CL.THROTTLE", histogram)
	}
	bounds, _ := histogram.field("histogram_usec")
	if len(bounds.list) != 2 || bounds.list[0].int() < 5000 || bounds.list[1].int() != 1 {
		t.Errorf("LATENCY HISTOGRAM counts %s, want one bound of at least 5000 us with the count 1", bounds)
	}
	if got := admin.ask("LATENCY", "HISTOGRAM", "get", "echo"); len(got.list) != 0 {
		t.Errorf("LATENCY HISTOGRAM for commands that did not run: %s, want nothing", got)
	}
}

// clientLine returns the fields in a line of CLIENT LIST.
func clientLine(line string) map[string]string {
	fields := map[string]string{}
	for _, field := range strings.Fields(line) {
		name, text, _ := strings.Cut(field, "=")
		fields[name] = text
	}
	return fields
}

// TestClientList checks CLIENT LIST for connections in all states.
func TestClientList(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	observer := s.dial()
	f := func(want string, commands ...string) {
		t.Helper()
		p := s.dial()
		id := strconv.FormatInt(p.ask("CLIENT", "ID").int(), 10)
		for _, command := range commands {
			p.ask(strings.Fields(command)...)
		}
		text := observer.ask("CLIENT", "LIST", "ID", id).text
		fields := clientLine(text)
		for _, pair := range strings.Fields(want + " id=" + id + " addr=" + p.LocalAddr().String() + " laddr=" + s.addr + " db=0 user=default") {
			name, text, _ := strings.Cut(pair, "=")
			if fields[name] != text {
				t.Errorf("after %q: the field %s is %q, want %q", commands, name, fields[name], text)
			}
		}
		if fd, err := strconv.Atoi(fields["fd"]); err != nil || fd < 3 || strings.Count(text, "\n") != 1 {
			t.Errorf("after %q: CLIENT LIST shows %q, want one line with a valid fd", commands, text)
		}
	}
	f("name= flags=N cmd=client|id resp=2 multi=-1 sub=0 psub=0 lib-name= lib-ver=")
	f("name=me cmd=client|setname", "CLIENT SETNAME me")
	f("lib-name=go lib-ver=1.2", "CLIENT SETINFO LIB-NAME go", "CLIENT SETINFO LIB-VER 1.2")
	f("name=me resp=3 cmd=hello", "HELLO 3 SETNAME me")
	f("flags=x multi=2", "MULTI", "PING", "PING")
	f("flags=N multi=-1", "MULTI", "PING", "EXEC")
	f("flags=P sub=2 psub=1 cmd=psubscribe", "SUBSCRIBE a", "SUBSCRIBE b", "PSUBSCRIBE c")
	f("flags=O cmd=monitor", "MONITOR")
	f("flags=t", "CLIENT TRACKING ON")
	f("flags=e", "CLIENT NO-EVICT ON")
	f("flags=N name= resp=2 cmd=reset", "HELLO 3 SETNAME me", "CLIENT TRACKING ON", "MULTI", "RESET")

	all := observer.ask("CLIENT", "LIST").text
	ids := []int{}
	for line := range strings.Lines(all) {
		id, err := strconv.Atoi(clientLine(line)["id"])
		if err != nil {
			t.Errorf("CLIENT LIST shows %q, want a numeric id", line)
		}
		ids = append(ids, id)
	}
	if len(ids) != 12 || !slices.IsSorted(ids) {
		t.Errorf("CLIENT LIST shows the ids %d, want 12 ids in increasing order", ids)
	}
	if got := observer.ask("CLIENT", "INFO").text; clientLine(got)["cmd"] != "client|info" {
		t.Errorf("CLIENT INFO: %q, want cmd=client|info", got)
	}
	for kind, want := range map[string]int{"normal": 10, "pubsub": 1, "replica": 1, "master": 0} {
		if got := observer.ask("CLIENT", "LIST", "TYPE", kind).text; strings.Count(got, "\n") != want {
			t.Errorf("CLIENT LIST TYPE %s shows %q, want %d lines", kind, got, want)
		}
	}
	for _, call := range []string{"LIST TYPE x", "LIST ID x", "LIST ID", "LIST x"} {
		observer.fails("ERR ", strings.Fields("CLIENT "+call)...)
	}
}

// TestClientKill closes connections with each filter of CLIENT KILL.
func TestClientKill(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	killer := s.dial()
	f := func(want string, filter func(victim *peer, id string) string) {
		t.Helper()
		victim, bystander := s.greet(), s.dial()
		bystander.ask("SUBSCRIBE", "c")
		id := strconv.FormatInt(victim.ask("CLIENT", "ID").int(), 10)
		killer.do(want, strings.Fields("CLIENT KILL "+filter(victim, id))...)
		victim.closed()
		bystander.ask("PING")
		_ = bystander.Close()
		killer.await("clients", "connected_clients", 1)
	}
	addr := func(victim *peer) string { return victim.LocalAddr().String() }
	f("+OK\r\n", func(victim *peer, _ string) string { return addr(victim) })
	f(":1\r\n", func(victim *peer, _ string) string { return "ADDR " + addr(victim) })
	f(":1\r\n", func(_ *peer, id string) string { return "ID " + id })
	f(":1\r\n", func(victim *peer, id string) string { return "ID " + id + " ADDR " + addr(victim) + " USER default" })
	f(":1\r\n", func(*peer, string) string { return "TYPE normal" })
	f(":1\r\n", func(*peer, string) string { return "TYPE normal SKIPME yes" })

	for _, call := range []string{"ID x", "ID 0", "TYPE x", "USER x", "SKIPME x", "x y", "ID 1 ADDR"} {
		killer.fails("ERR ", strings.Fields("CLIENT KILL "+call)...)
	}
	killer.do(":0\r\n", "CLIENT", "KILL", "LADDR", "127.0.0.1:1")
	other := s.greet()
	killer.do(":2\r\n", "CLIENT", "KILL", "LADDR", s.addr, "SKIPME", "no")
	killer.closed()
	other.closed()

	self := s.dial()
	self.send(request("CLIENT", "KILL", self.LocalAddr().String()) + ping)
	self.expect("+OK\r\n")
	self.closed()

	// CLIENT KILL also closes a client that does not read its replies.
	killer = s.dial()
	deaf := s.connect().(*net.TCPConn)
	_ = deaf.SetReadBuffer(4 << 10)
	go func() { _, _ = deaf.Write([]byte(strings.Repeat(request("COMMAND", "DOCS"), 2000))) }()
	killer.await("clients", "connected_clients", 2)
	killer.do(":1\r\n", "CLIENT", "KILL", "ADDR", deaf.LocalAddr().String())
	killer.await("clients", "connected_clients", 1)
	_ = deaf.Close()
}

// TestCounters checks the counters in INFO, and that CONFIG RESETSTAT resets them.
func TestCounters(t *testing.T) {
	t.Parallel()
	s, _ := startFrozen(t, nil)
	p := s.dial()
	p.do("+OK\r\n", "CONFIG", "RESETSTAT")
	for range 3 {
		p.ask("CL.THROTTLE", "k", "0", "1", "60")
	}
	p.fails("ERR", "CL.THROTTLE", "k", "x", "1", "60")
	p.fails("ERR", "CL.THROTTLE", "k")
	p.fails("ERR unknown command", "NONSENSE")
	s.dial().send("*x\r\n")
	p.await("stats", "protocol_errors", 1)

	stats := p.info("stats")
	for name, want := range map[string]string{"limited_decisions": "2", "total_error_replies": "4", "handler_panics": "0", "total_connections_received": "1"} {
		if stats[name] != want {
			t.Errorf("%s is %s, want %s", name, stats[name], want)
		}
	}
	if got := p.info("errorstats")["errorstat_ERR"]; got != "count=4" {
		t.Errorf("errorstat_ERR is %s, want count=4", got)
	}
	got := p.info("commandstats")["cmdstat_cl.throttle"]
	if !strings.HasPrefix(got, "calls=4,") || !strings.HasSuffix(got, ",rejected_calls=1,failed_calls=1") {
		t.Errorf("cmdstat_cl.throttle is %s, want 4 calls, 1 rejected call and 1 failed call", got)
	}
	p.do("+OK\r\n", "CONFIG", "RESETSTAT")
	for name, text := range p.info("commandstats") {
		if name != "cmdstat_config|resetstat" {
			t.Errorf("%s is %s after RESETSTAT, want no such field", name, text)
		}
	}
	if got := fmt.Sprint(p.info("errorstats")); got != "map[]" {
		t.Errorf("errorstats are %s after RESETSTAT, want none", got)
	}
}
