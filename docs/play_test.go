package docs

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

const example = `
# Title

    $ redis-cli -p 6380 SET a 1
    OK
    $ redis-cli -p 6380 TTL \
        a
    (integer) 10        of 10

Text.

    $ make run

` + "```" + `
$ redis-cli -p 6380 --json
127.0.0.1:6380> EXEC
1) 1) (integer) 0      a remark
   2) (integer) 2
(1 minute later)
127.0.0.1:6380> PING
PONG
$ redis-cli -p 6380 -3 PING | grep ON
PONG
` + "```" + `
## Rules

` + "```yaml" + `
# No heading
a: 1
` + "```" + `

    $ redis-cli -p 6380 PING
    PONG

` + "```yaml wrong" + `
b
` + "```" + `
` + "```yaml test" + `
d
` + "```" + `

    $ bin/throttled rules check rules.yaml
    b

## Rules without commands

` + "```yaml" + `
c: 1
` + "```" + `
`

func TestSessionsOfAText(t *testing.T) {
	got, err := sessions("x.md", example)
	if err != nil {
		t.Fatal(err)
	}
	none, json := []string{}, []string{"--json"}
	want := []session{
		{file: "x.md", line: 4, steps: []step{
			{line: 4, replyAt: 5, options: none, args: []string{"SET", "a", "1"}, want: []string{"OK"}},
			{line: 6, replyAt: 8, options: none, args: []string{"TTL", "a"}, want: []string{"(integer) 10"}},
		}},
		{file: "x.md", line: 15, options: json, steps: []step{
			{line: 16, replyAt: 17, options: json, args: []string{"EXEC"}, want: []string{"1) 1) (integer) 0", "   2) (integer) 2"}},
			{line: 19, wait: time.Minute},
			{line: 20, replyAt: 21, options: json, args: []string{"PING"}, want: []string{"PONG"}},
			{line: 22, replyAt: 23, grep: "ON", options: []string{"-3"}, args: []string{"PING"}, want: []string{"PONG"}},
		}},
		{file: "x.md", line: 28, section: 2, steps: []step{
			{line: 28, rules: "# No heading\na: 1\n"},
			{line: 32, replyAt: 33, options: none, args: []string{"PING"}, want: []string{"PONG"}},
			{line: 36, rules: "b\n", wrong: true},
			{line: 39, tests: "d\n"},
			{line: 42, replyAt: 43, program: true, args: []string{"rules", "check", "rules.yaml"}, want: []string{"b"}},
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("sessions returns\n     %+v\nwant %+v", got, want)
	}
}

func TestSessionsThatCannotBePlayed(t *testing.T) {
	for name, c := range map[string]struct{ lines, want string }{
		"another program":     {"$ redis-cli -p 6380 PING\nPONG\n$ ls", "x.md:4: no command"},
		"text first":          {"$ redis-cli -p 6380\nhello", "x.md:3: no command"},
		"text after a wait":   {"$ redis-cli -p 6380 PING\nPONG\n(5 seconds later)\nPONG", "x.md:5: no command"},
		"no reply":            {"$ redis-cli -p 6380 PING\n$ redis-cli -p 6380 PING\nPONG", "x.md:2: the reply is missing"},
		"no reply at the end": {"$ redis-cli -p 6380 PING", "x.md:2: the reply is missing"},
		"quotes":              {"$ redis-cli -p 6380 ECHO 'a b'\na b", "x.md:2: only plain words"},
		"another command":     {"$ bin/throttled rules check a\nok\n$ bin/throttled import", "x.md:4: no command"},
		"a redirection":       {"$ bin/throttled rules check a > b\nok", "x.md:2: only plain words"},
		"a pipe":              {"$ redis-cli -p 6380 PING | cat\nPONG", "x.md:2: only plain words"},
	} {
		_, err := sessions("x.md", "```\n"+c.lines+"\n```\n")
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that begins with %s", name, err, c.want)
		}
	}
}

func TestWaits(t *testing.T) {
	for line, want := range map[string]time.Duration{
		"(1 second later)":         time.Second,
		"(10 seconds later)":       10 * time.Second,
		"(250 milliseconds later)": 250 * time.Millisecond,
		"(2 minutes later)":        2 * time.Minute,
		"(3 hours later)":          3 * time.Hour,
		"(1 day later)":            24 * time.Hour,
		"(later)":                  0,
		"10 seconds later":         0,
		"(10 weeks later)":         0,
		"(integer) 10":             0,
	} {
		if got, ok := parseWait(line); got != want || ok != (want > 0) {
			t.Errorf("parseWait(%s) = %v, %v; want the duration and true, or 0 and false", line, got, ok)
		}
	}
}

func TestRemarks(t *testing.T) {
	for line, want := range map[string]string{
		"1) (integer) 0        may pass":    "1) (integer) 0",
		"1) (integer) 0  may pass, so far":  "1) (integer) 0",
		"1) (integer) 0 ":                   "1) (integer) 0 ",
		"   2) (integer) 2    of 2":         "   2) (integer) 2",
		"6) 1) (integer) 2":                 "6) 1) (integer) 2",
		"(error) ERR value is out of range": "(error) ERR value is out of range",
	} {
		if got := withoutRemark(line); got != want {
			t.Errorf("withoutRemark(%q) = %q, want %q", line, got, want)
		}
	}
}

func TestDiffer(t *testing.T) {
	for _, c := range []struct {
		want  string
		shown string
		wrong string
	}{
		{"OK", "OK\n", ""},
		{"1) (integer) 0\n2) (integer) 2", "1) (integer) 0\n2) (integer) 2\n", ""},
		{"1) (integer) 0\n2) (integer) 2", "1) (integer) 0\n2) (integer) 3\n", `line 2 of the reply is "2) (integer) 3", and "2) (integer) 2" in the document`},
		{"1) (integer) 0\n2) (integer) 2", "1) (integer) 0\n", "line 2 of the reply is missing: 2) (integer) 2"},
		{"1) (integer) 0", "1) (integer) 0\n2) (integer) 3\n", "the document lacks line 2 of the reply: 2) (integer) 3"},
		{"OK", "", `line 1 of the reply is "", and "OK" in the document`},
	} {
		if got := differ(strings.Split(c.want, "\n"), c.shown); got != c.wrong {
			t.Errorf("output %q, document %q: differ returns %q, want %q", c.shown, c.want, got, c.wrong)
		}
	}
}

// TestWrongExamplesAreFound checks that a wrong reply in a session is detected.
func TestWrongExamplesAreFound(t *testing.T) {
	p := startServer(t)
	want := []string{"1) (integer) 0", "2) (integer) 2", "3) (integer) 1", "4) (integer) -1", "5) (integer) 10"}
	args := strings.Fields("CL.THROTTLE k 1 1 10")
	if wrong := differ(want, p.ask(t, nil, args)); wrong != "" {
		t.Error(wrong)
	}
	if differ(want, p.ask(t, nil, args)) == "" {
		t.Error("differ returns no difference for the second reply, want one")
	}
	p.now.Add(uint64(20 * time.Second))
	if wrong := differ(want, p.ask(t, nil, args)); wrong != "" {
		t.Errorf("after 20 seconds: %s", wrong)
	}
}

// TestOneServer checks that the sections of a document with oneServer are one session.
func TestOneServer(t *testing.T) {
	text := "# T\n```yaml\na\n```\n## A\n```\n$ redis-cli -p 6380 PING\nPONG\n```\n## B\n```\n$ redis-cli -p 6380 PING\nPONG\n```\n"
	for _, c := range []struct {
		text  string
		steps []int // of each session
	}{{text, []int{1, 1}}, {oneServer + "\n" + text, []int{3}}} {
		found, err := sessions("x.md", c.text)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, s := range found {
			got = append(got, len(s.steps))
		}
		if !reflect.DeepEqual(got, c.steps) {
			t.Errorf("the sessions of %q have %v steps, want %v", c.text, got, c.steps)
		}
	}
}

func TestGrep(t *testing.T) {
	for _, c := range []struct{ lines, text, want string }{
		{"a:1\r\nb:2\r\n", "", "a:1\r\nb:2\r\n"},
		{"a:1\r\nb:2\r\nab:3\r\n", "b", "b:2\nab:3\n"},
		{"a:1\r\n", "b", ""},
	} {
		if got := grep(c.lines, c.text); got != c.want {
			t.Errorf("grep(%q, %q) = %q, want %q", c.lines, c.text, got, c.want)
		}
	}
}

// TestUpdates checks the lines that -update writes for replies that differ.
func TestUpdates(t *testing.T) {
	for _, c := range []struct{ name, lines, shown, want string }{
		{"a remark stays", "$ x\n[1]    refused\n", "[0]\n", "$ x\n[0]    refused\n"},
		{"an indented block", "    $ x\n    OK\n", "PONG\n", "    $ x\n    PONG\n"},
		{"more lines", "$ x\n?\n", "1) a\n2) b\n", "$ x\n1) a\n2) b\n"},
		{"fewer lines", "$ x\n1) a\n2) b\n", "OK\n", "$ x\nOK\n"},
	} {
		lines := strings.Split(c.lines, "\n")
		reply := change{line: 2, lines: len(lines) - 2, shown: c.shown}
		reply.apply(lines)
		if got := strings.ReplaceAll(strings.Join(lines, "\n"), removed+"\n", ""); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
