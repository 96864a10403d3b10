package server

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/resp"
)

// TestCommandTable checks the consistency of each row of the command table, for every listener profile.
func TestCommandTable(t *testing.T) {
	t.Parallel()
	names := commandNames(commandTable())
	for _, on := range []profileSet{onRedis, onCluster, onSentinel, onPeers} {
		r := newRegistry(commandTable(), on)
		for _, cmd := range r.every {
			if names[cmd.id] != cmd.name || r.named(strings.ToUpper(cmd.name)) != cmd {
				t.Errorf("%s: registry.named returns a different row, or commandNames has a different name at the id of this row", cmd.name)
			}
			checkRow(t, cmd)
		}
	}
}

func checkRow(t *testing.T, cmd *command) {
	t.Helper()
	groups := []string{groupConnection, groupGeneric, groupServer, groupTransactions, groupPubsub, groupCluster, groupSentinel, groupScripting, groupLimiter}
	if cmd.summary == "" || strings.HasSuffix(cmd.summary, ".") || strings.Count(cmd.since, ".") != 2 || !slices.Contains(groups, cmd.group) || cmd.name != strings.ToLower(cmd.name) {
		t.Errorf("%s: invalid name, summary %q, version (since) %q or group %q", cmd.name, cmd.summary, cmd.since, cmd.group)
	}
	if cmd.keys.first > 0 && (cmd.keys.access == "" || cmd.keys.step < 1) {
		t.Errorf("%s: access or step is missing in the keys %+v", cmd.name, cmd.keys)
	}
	if writes := strings.HasPrefix(cmd.keys.access, "R") && !strings.HasPrefix(cmd.keys.access, "RO"); writes != (cmd.is(write) && cmd.keys.first > 0) || cmd.is(write) && cmd.is(readonly) {
		t.Errorf("%s: the access in keys %+v contradicts the flags %b, or the flags contradict each other", cmd.name, cmd.keys, cmd.flags)
	}
	for _, a := range cmd.syntax {
		checkSyntax(t, cmd, a)
	}
	words := len(strings.Split(cmd.name, "|"))
	if least := max(cmd.arity, -cmd.arity); least < words {
		t.Errorf("%s: the arity %d is less than the number of words in the name", cmd.name, cmd.arity)
	}
	if required := required(cmd.syntax); len(cmd.subs) == 0 && words+required != max(cmd.arity, -cmd.arity) && cmd.name != "auth" && cmd.name != "client|kill" {
		t.Errorf("%s: arity %d, but the syntax requires %d arguments after the name", cmd.name, cmd.arity, required)
	}
}

func checkSyntax(t *testing.T, cmd *command, a argument) {
	t.Helper()
	kinds := []string{"key", "string", "integer", "pattern", "pure-token", "oneof", "block"}
	if !slices.Contains(kinds, a.kind) || a.name == "" || a.String() == "" {
		t.Errorf("%s: an argument has an unknown kind, no name or no text: %+v", cmd.name, a)
	}
	if (a.kind == "oneof" || a.kind == "block") != (len(a.parts) > 0) || a.kind == "pure-token" && a.token == "" {
		t.Errorf("%s: the parts or the token of an argument do not fit its kind: %+v", cmd.name, a)
	}
	for _, part := range a.parts {
		checkSyntax(t, cmd, part)
	}
}

// required returns the minimum number of words in a list of arguments.
func required(list []argument) (n int) {
	for _, a := range list {
		switch {
		case a.optional:
		case a.kind == "block":
			n += required(a.parts)
		case a.kind == "oneof":
			least := math.MaxInt
			for i := range a.parts {
				least = min(least, required(a.parts[i:i+1]))
			}
			n += least
		case a.token != "" && a.kind != "pure-token":
			n += 2
		default:
			n++
		}
	}
	return n
}

// TestRegistryRefuses checks that newRegistry panics if a table is inconsistent.
func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	run := func(*client, [][]byte) error { return nil }
	parse := func(*parsing, [][]byte) error { return nil }
	reply := func(*resp.Reply, *batch, *call) {}
	f := func(table ...command) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("newRegistry accepts the inconsistent table %+v", table)
			}
		}()
		newRegistry(table, onAll)
	}
	f(command{name: "a", arity: 1})
	f(command{name: "a", arity: 1, run: run, parse: parse, reply: reply})
	f(command{name: "a", arity: 1, run: run, reply: reply})
	f(command{name: "a", arity: 1, parse: parse})
	f(command{name: "a", run: run})
	f(command{name: "a", arity: 1, run: run}, command{name: "a", arity: 1, run: run})
	f(command{name: "a|b", arity: 2, run: run}, command{name: "a", arity: 1})
	f(command{name: strings.Repeat("a", maxCommandName+1), arity: 1, run: run})
}

// TestCommandDocs compares the replies of COMMAND and its subcommands with the command table, in both versions of the
// protocol.
func TestCommandDocs(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.dial()
	for _, version := range []string{"2", "3"} {
		p.ask("HELLO", version)
		all := p.ask("COMMAND").list
		if count := p.ask("COMMAND", "COUNT").int(); int(count) != len(all) || len(all) != len(s.commands[onRedis].all) {
			t.Errorf("COMMAND returned %d commands, COUNT returned %d, want the number of rows of the command table", len(all), count)
		}
		docs := p.ask("COMMAND", "DOCS")
		names := p.ask("COMMAND", "LIST").words()
		if len(docs.list) != 2*len(all) || len(names) != len(all) {
			t.Errorf("COMMAND DOCS returned %d commands, LIST returned %d, want as many as COMMAND", len(docs.list)/2, len(names))
		}
		for i, info := range all {
			cmd := s.commands[onRedis].all[i]
			checkInfo(t, cmd, info)
			doc, found := docs.field(cmd.name)
			if !found || !slices.Contains(names, cmd.name) {
				t.Errorf("%s is missing in COMMAND DOCS or COMMAND LIST", cmd.name)
			}
			checkDoc(t, cmd, doc)
		}
		for _, cmd := range s.commands[onRedis].every {
			one := p.ask("COMMAND", "INFO", strings.ToUpper(cmd.name), "nonsense").list
			if len(one) != 2 || !one[1].null {
				t.Fatalf("COMMAND INFO %s nonsense: got %s, want the command and null", cmd.name, one)
			}
			checkInfo(t, cmd, one[0])
			doc, _ := p.ask("COMMAND", "DOCS", cmd.name, "nonsense").field(cmd.name)
			checkDoc(t, cmd, doc)
		}
	}
}

// checkInfo compares an entry of the reply to COMMAND with its row of the command table.
func checkInfo(t *testing.T, cmd *command, info value) {
	t.Helper()
	if len(info.list) != 10 || info.list[0].text != cmd.name || info.list[1].int() != int64(cmd.arity) || len(info.list[9].list) != len(cmd.subs) {
		t.Errorf("%s: the name, the arity, or the number of elements or subcommands is wrong in %s", cmd.name, info)
		return
	}
	flags, cats, tips := info.list[2].words(), info.list[6].words(), info.list[7].words()
	if slices.Contains(flags, "write") != cmd.is(write) || slices.Contains(flags, "readonly") != cmd.is(readonly) ||
		slices.Contains(flags, "fast") != slices.Contains(cats, "@fast") || slices.Contains(cats, "@fast") == slices.Contains(cats, "@slow") {
		t.Errorf("%s: the flags %q contradict the command table or the categories %q", cmd.name, flags, cats)
	}
	specs := countTrue(cmd.keys.first > 0, cmd.is(movableKeys))
	if len(tips) != len(strings.Fields(cmd.tips)) || len(info.list[8].list) != specs {
		t.Errorf("%s: the number of tips in %q or of key specifications in %s is wrong", cmd.name, tips, info.list[8])
	}
	for i, sub := range cmd.subs {
		checkInfo(t, sub, info.list[9].list[i])
	}
}

// checkDoc compares an entry of the reply to COMMAND DOCS with its row of the command table.
func checkDoc(t *testing.T, cmd *command, doc value) {
	t.Helper()
	for field, want := range map[string]string{"summary": cmd.summary, "since": cmd.since, "group": cmd.group} {
		if v, _ := doc.field(field); v.text != want {
			t.Errorf("COMMAND DOCS %s: %s is %q, want %q", cmd.name, field, v.text, want)
		}
	}
	if cost, _ := doc.field("complexity"); cost.text == "" {
		t.Errorf("COMMAND DOCS %s: the complexity is empty", cmd.name)
	}
	arguments, _ := doc.field("arguments")
	checkArguments(t, cmd, cmd.syntax, arguments.list)
	subs, _ := doc.field("subcommands")
	if len(subs.list) != 2*len(cmd.subs) {
		t.Errorf("COMMAND DOCS %s: got %d subcommands, want %d", cmd.name, len(subs.list)/2, len(cmd.subs))
	}
	for _, sub := range cmd.subs {
		subDoc, _ := subs.field(sub.name)
		checkDoc(t, sub, subDoc)
	}
}

func checkArguments(t *testing.T, cmd *command, want []argument, got []value) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("COMMAND DOCS %s: got %d arguments, want %d", cmd.name, len(got), len(want))
		return
	}
	for i, a := range want {
		name, _ := got[i].field("name")
		kind, _ := got[i].field("type")
		token, _ := got[i].field("token")
		if name.text != a.name || kind.text != a.kind || token.text != a.token {
			t.Errorf("COMMAND DOCS %s: got argument %s, want %+v", cmd.name, got[i], a)
		}
		parts, _ := got[i].field("arguments")
		checkArguments(t, cmd, a.parts, parts.list)
	}
}

// TestCommandList checks the filters of COMMAND LIST.
func TestCommandList(t *testing.T) {
	t.Parallel()
	p := start(t, nil).dial()
	f := func(kind, text string, want ...string) {
		t.Helper()
		got := p.ask("COMMAND", "LIST", "FILTERBY", kind, text).words()
		for _, name := range want {
			if !slices.Contains(got, name) {
				t.Errorf("FILTERBY %s %s: %q lacks %s", kind, text, got, name)
			}
		}
		if len(want) == 0 && len(got) > 0 {
			t.Errorf("FILTERBY %s %s: got %q, want no commands", kind, text, got)
		}
	}
	f("MODULE", "throttled", "cl.throttle", "cl.window", "cl.bucket", "cl.leaky", "cl.all")
	f("MODULE", "other")
	f("ACLCAT", "transaction", "multi", "exec", "watch")
	f("ACLCAT", "nonsense")
	f("PATTERN", "client|*", "client|list", "client|kill")
	f("pattern", "CL.*", "cl.throttle")
	p.do(failure(errSyntax), "COMMAND", "LIST", "FILTERBY", "x", "y")
	p.do(failure(errSyntax), "COMMAND", "LIST", "FILTERBY", "MODULE")
	p.do(failure(errSyntax), "COMMAND", "LIST", "x", "MODULE", "y")
}

// TestHelp checks that each command with subcommands has the subcommand HELP, and that HELP lists all subcommands.
func TestHelp(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	p := s.dial()
	for _, cmd := range s.commands[onRedis].all {
		if len(cmd.subs) == 0 {
			continue
		}
		lines := p.ask(cmd.name, "HELP").words()
		if len(lines) != 1+2*len(cmd.subs) {
			t.Errorf("%s HELP: got %q, want one line, and two lines for each subcommand", cmd.name, lines)
			continue
		}
		for i, sub := range cmd.subs {
			name := strings.ToUpper(strings.TrimPrefix(sub.name, cmd.name+"|"))
			if word, _, _ := strings.Cut(lines[1+2*i], " "); word != name || lines[2+2*i] != "    "+sub.summary+"." {
				t.Errorf("%s HELP: the lines for %s are %q, want its name and its summary", cmd.name, sub.name, lines[1+2*i:3+2*i])
			}
		}
	}
}

// TestGetKeys checks COMMAND GETKEYS and GETKEYSANDFLAGS for commands of every form.
func TestGetKeys(t *testing.T) {
	t.Parallel()
	p := start(t, nil).dial()
	f := func(call, keys, access string) {
		t.Helper()
		words := strings.Fields("COMMAND GETKEYS " + call)
		if got := strings.Join(p.ask(words...).words(), " "); got != keys {
			t.Errorf("GETKEYS %s: got keys %q, want %q", call, got, keys)
		}
		words[1] = "GETKEYSANDFLAGS"
		for _, pair := range p.ask(words...).list {
			if got := strings.Join(pair.list[1].words(), " "); got != access {
				t.Errorf("GETKEYSANDFLAGS %s: got access %q, want %q", call, got, access)
			}
		}
	}
	f("CL.THROTTLE a 1 1 1", "a", "RW access update")
	f("CL.WINDOW a 1 1 FIXED", "a", "RW access update")
	f("CL.BUCKET a 1 1 1", "a", "RW access update")
	f("CL.LEAKY a 1 1 1", "a", "RW access update")
	f("CL.ALL 1 THROTTLE a 1 1 1", "a", "RW access update")
	f("cl.all 1 window a 1 1 buckets 3 WINDOW b 1 1 LOG bucket c 1 1 1 leaky d 1 1 1 ms", "a b c d", "RW access update")
	f("CL.ALL 1 WINDOW window 1 1 WINDOW ms 1 1", "window ms", "RW access update")
	f("DEL a b c", "a b c", "RM delete")
	f("EXISTS a b", "a b", "RO")
	f("TTL a", "a", "RO access")
	f("OBJECT ENCODING a", "a", "RO")
	f("MEMORY USAGE a SAMPLES 1", "a", "RO")
	p.do(failure(errNoKeys), "COMMAND", "GETKEYS", "PING", "x")
	p.do(failure(errNoKeys), "COMMAND", "GETKEYS", "CLIENT", "ID")
	p.do(failure(errBadCommand), "COMMAND", "GETKEYS", "NONSENSE", "a")
	p.do(failure(errBadCommand), "COMMAND", "GETKEYS", "OBJECT", "NONSENSE", "a")
	p.do(failure(errBadArity), "COMMAND", "GETKEYS", "CL.THROTTLE", "a")
	p.do(failure(errBadArity), "COMMAND", "GETKEYS", "CL.ALL", "1", "WINDOW", "a", "1")
	for _, bad := range []string{"1 THROTTLE a 1 1", "1 WINDOW a 1 1 WINDOW b 1", "x WINDOW a 1 1", "1 NONSENSE a 1 1"} {
		p.do(failure(errBadArguments), append([]string{"COMMAND", "GETKEYSANDFLAGS", "CL.ALL"}, words(bad)...)...)
	}
	p.do(failure(errBadArity), "COMMAND", "GETKEYS", "OBJECT", "ENCODING")
}

// notOneReply contains the commands that do not always send exactly one reply.
var notOneReply = []string{"quit", "shutdown", "client|reply", "subscribe", "psubscribe", "unsubscribe", "punsubscribe", "monitor"}

// TestEveryCommandAnswersOnce runs every command with various arguments, outside and inside a transaction, and in
// both versions of the protocol. Each command must send exactly one reply.
func TestEveryCommandAnswersOnce(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.dial().ask("CL.THROTTLE", "1", "1", "1", "3600")
	for _, cmd := range s.commands[onRedis].every {
		if slices.Contains(notOneReply, cmd.name) {
			continue
		}
		least := max(cmd.arity, -cmd.arity)
		for n := least; n <= least+4; n++ {
			for _, filler := range []string{"1", "on", "*", "", "\r\n"} {
				p := s.dial() // a new connection, since the number of failed AUTH attempts is limited
				call := strings.Split(cmd.name, "|")
				for len(call) < n {
					call = append(call, filler)
				}
				for _, version := range []string{"2", "3"} {
					p.ask("HELLO", version)
					p.ask(call...)
					p.ask("DISCARD")
					if got := p.ask("ECHO", "end"); got.text != "end" {
						t.Fatalf("%q: the command did not send exactly one reply: a later ECHO \"end\" returned %s", call, got)
					}
				}
				runInTransaction(t, p, call)
				_ = p.Close()
			}
		}
	}
	s.greet().await("stats", "handler_panics", 0)
}

// runInTransaction runs a command between two PINGs in a transaction. The command itself may end the transaction.
func runInTransaction(t *testing.T, p *peer, call []string) {
	t.Helper()
	p.ask("MULTI")
	queued := 0
	for _, words := range [][]string{{"PING"}, call, {"PING"}} {
		queued += countTrue(p.ask(words...).text == "QUEUED")
	}
	if got := p.ask("EXEC"); got.kind == '*' && len(got.list) != queued {
		t.Errorf("%q: EXEC of %d queued commands returned %s, want one reply for each", call, queued, got)
	}
	p.do("$3\r\nend\r\n", "ECHO", "end")
}

// TestFind_Recent finds each command after each other command. The recent command must not change the result.
func TestFind_Recent(t *testing.T) {
	t.Parallel()
	inputs := [][][]byte{{nil}, {[]byte("")}, {[]byte("client|list")}}
	for _, cmd := range testCommands.every {
		for _, name := range []string{cmd.name, strings.ToUpper(cmd.name), strings.ToUpper(cmd.name[:1]) + cmd.name[1:]} {
			inputs = append(inputs, bytes.Split([]byte(name), []byte("|")))
		}
	}
	for _, args := range inputs {
		want := testCommands.find(args, nil)
		for _, recent := range testCommands.every {
			if got := testCommands.find(args, recent); got != want {
				t.Fatalf("%q after %s: got the row %v, want the row that is found without a recent command", args, recent.name, got)
			}
		}
	}
}
