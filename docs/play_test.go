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
$ redis-cli -p 6380 -3 PING
PONG
` + "```" + `
`

func TestSessionsOfAText(t *testing.T) {
	got, err := sessions("x.md", example)
	if err != nil {
		t.Fatal(err)
	}
	none, json := []string{}, []string{"--json"}
	want := []session{
		{"x.md", 4, nil, []step{
			{line: 4, options: none, args: []string{"SET", "a", "1"}, want: []string{"OK"}},
			{line: 6, options: none, args: []string{"TTL", "a"}, want: []string{"(integer) 10"}},
		}},
		{"x.md", 15, json, []step{
			{line: 16, options: json, args: []string{"EXEC"}, want: []string{"1) 1) (integer) 0", "   2) (integer) 2"}},
			{line: 19, wait: time.Minute},
			{line: 20, options: json, args: []string{"PING"}, want: []string{"PONG"}},
			{line: 22, options: []string{"-3"}, args: []string{"PING"}, want: []string{"PONG"}},
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
