package rediscli

import (
	"bufio"
	"net"
	"strings"
	"testing"
)

func TestScriptsThatAreNone(t *testing.T) {
	for _, text := range []string{
		"> PING",
		"== A reply to nothing\n+PONG",
		"== A directive too late\n> PING\n% resp3",
		"== An unknown directive\n% fast",
		"== An option without a value\n% config timeout",
		"== A time that is none\n@ soon",
		"== Instead of nothing\n% redis\nredis: +PONG",
		"== Instead of a command\n% redis\n> PING\nredis: +PONG",
		"== Instead of a reply\n% redis\n> PING\n+PONG\nredis> PING",
		"== Not compared with Redis\n> PING\n+PONG\nredis: +PING",
	} {
		if s, err := parse("test", text); err == nil {
			t.Errorf("parse(%q) returns no error and %d sections, want an error", text, len(s.sections))
		}
	}
}

func TestMatch(t *testing.T) {
	for _, row := range []struct {
		want, got string
		match     bool
	}{
		{"+OK", "+OK", true},
		{"+OK", "+OKAY", false},
		{"<int>", "-17", true},
		{"<int>", `"17"`, false},
		{"[<int> <int>]", "[1 2]", true},
		{"[<int> <int>]", "[1 2 3]", false},
		{`"a=<word> b=<num> c=<hex>"`, `"a=x/y b=1.5 c=ff"`, true},
		{`"a=<word> b=<num>"`, `"a=x y b=1.5"`, false},
		{`"<any> z"`, `"x y\r\n z"`, true},
		{`"<any> z"`, `"x y z "`, false},
		{`+GET <pattern>`, `+GET <pattern>`, true},
		{`+GET <pattern>`, `+GET x`, false},
	} {
		if (variables{}).match(row.want, row.got) != row.match {
			t.Errorf("%s matches the pattern %s: want %v", row.got, row.want, row.match)
		}
	}
}

func TestVariables(t *testing.T) {
	v := variables{}
	if !v.match("[<int:id> <int>]", "[7 8]") || !v.match("<id>", "7") || v.match("<id>", "8") {
		t.Errorf("after [7 8] has matched [<int:id> <int>], the variables are %v; want 7 for id", v)
	}
	if got := v.fill("CLIENT KILL ID <id> <other>"); got != "CLIENT KILL ID 7 <other>" {
		t.Errorf("fill returns %s, want CLIENT KILL ID 7 <other>", got)
	}
}

// TestNotation reads replies from the wire, and renders them like redis-cli.
func TestNotation(t *testing.T) {
	for _, row := range []struct{ wire, script, shown string }{
		{"+OK\r\n", "+OK", "OK"},
		{"-ERR no: x\r\n", "-ERR no: x", "(error) ERR no: x"},
		{"-ERR no: \r\n", `-"ERR no: "`, "(error) ERR no: "},
		{":-5\r\n", "-5", "(integer) -5"},
		{"$4\r\na\r\n\xff\r\n", `"a\r\n\xff"`, `"a\r\n\xff"`},
		{"$-1\r\n", "nil", "(nil)"},
		{"*-1\r\n", "nil[]", "(nil)"},
		{"_\r\n", "null", "(nil)"},
		{"*0\r\n", "[]", "(empty array)"},
		{"~0\r\n", "~[]", "(empty set)"},
		{"%0\r\n", "{}", "(empty hash)"},
		{"*2\r\n:1\r\n*2\r\n+QUEUED\r\n-ERR no x\r\n", `[1 [+QUEUED -"ERR no x"]]`, "1) (integer) 1\n2) 1) QUEUED\n   2) (error) ERR no x"},
		{"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n~2\r\n:2\r\n:3\r\n", `{"a":1 "b":~[2 3]}`, "1# \"a\" => (integer) 1\n2# \"b\" => \n   1~ (integer) 2\n   2~ (integer) 3"},
		{"=9\r\ntxt:a \"b\"\r\n", `txt"a \"b\""`, `a "b"`},
		{">2\r\n$1\r\na\r\n:1\r\n", `push["a" 1]`, ""},
		{":1\r", "", ""},
		{"$3\r\nabcd\r\n", "", ""},
		{"*1\r\n", "", ""},
		{"!4\r\nPING\r\n", "", ""},
		{"\r\n", "", ""},
		{":1\n", "", ""},
	} {
		got, err := readReply(t, row.wire)
		if got != row.script || (err == nil) != (row.script != "") {
			t.Errorf("%q is read as %s (error %v), want %s", row.wire, got, err, row.script)
		}
		if row.shown == "" {
			continue
		}
		if tree, err := parseReply(row.script); err != nil || tree.render("") != row.shown {
			t.Errorf("%s is rendered as\n%s (error %v)\nwant\n%s", row.script, tree.render(""), err, row.shown)
		}
	}
}

func readReply(t *testing.T, bytes string) (string, error) {
	t.Helper()
	server, client := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	go func() {
		_, _ = server.Write([]byte(bytes)) // the reader may stop early
		_ = server.Close()
	}()
	w := &wire{conn: client, in: bufio.NewReader(client)}
	text, _, err := w.reply(patience)
	return text, err
}

func TestRepliesThatAreNone(t *testing.T) {
	for _, text := range []string{"", "[1", "[1]]", `["a]`, `{"a"}`, `txt`, `"a" "b"`, "?["} {
		if tree, err := parseReply(text); err == nil {
			t.Errorf("parseReply(%s) returns no error and %s, want an error", text, tree.render(""))
		}
	}
}

// TestLeftOver checks that end reports a reply that no step has read.
func TestLeftOver(t *testing.T) {
	for commands, want := range map[string]string{"": "", "PING": "+PONG", "PING;ECHO x": "+PONG", "QUIT": "+OK"} {
		sec := &section{}
		p := newPlayer(t, sec, startInProcess(t, sec))
		for _, command := range strings.Split(commands, ";") {
			if err := p.do(&step{kind: send, text: command}); err != nil && command != "" {
				t.Fatal(err)
			}
		}
		err := p.end()
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("commands %s: end returns the error %v, want an error that ends in %s", commands, err, want)
		}
	}
}
