package decision

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/acl"
)

// script is a Runner that returns fixed replies, and records the commands.
type script struct {
	replies  string
	err      error
	commands *[]string
	closed   *int
}

func (script) As(acl.Login) {}

func (s script) Run(commands, replies []byte) ([]byte, error) {
	if s.commands != nil {
		*s.commands = append(*s.commands, string(commands))
	}
	return append(replies, s.replies...), s.err
}

func (s script) Close() {
	if s.closed != nil {
		*s.closed++
	}
}

func checkerOf(s script) *Checker { return New(func() Runner { return s }) }

// words returns commands without the lengths, separated by spaces.
func words(commands string) string {
	var out []string
	for _, line := range strings.Split(strings.TrimSuffix(commands, "\r\n"), "\r\n") {
		if line == "" || line[0] != '*' && line[0] != '$' {
			out = append(out, line)
		}
	}
	return strings.Join(out, " ")
}

const (
	five     = "$7\r\nlimited\r\n:1\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:0\r\n$11\r\nretry_after\r\n:1500\r\n$11\r\nreset_after\r\n:9000\r\n"
	refusal  = "%9\r\n" + five + "$4\r\nname\r\n$5\r\nlogin\r\n$5\r\nflags\r\n~1\r\n$4\r\nwarn\r\n$6\r\nlimits\r\n*1\r\n" + limit + "$7\r\nversion\r\n:7\r\n"
	limit    = "%9\r\n$4\r\nname\r\n$5\r\nlogin\r\n$6\r\nwindow\r\n$3\r\n15m\r\n" + five + "$5\r\nflags\r\n~2\r\n$4\r\nwarn\r\n$5\r\nnewer\r\n$7\r\nwait_ms\r\n:20\r\n"
	noLeader = "-LOADING no leader: retry\r\n"
)

var refused = Decision{Limited: true, Limit: 5, RetryAfter: 1500 * time.Millisecond, ResetAfter: 9 * time.Second}

func TestCheck(t *testing.T) {
	var commands []string
	c := checkerOf(script{replies: refusal + noLeader + refusal, commands: &commands})
	results := make([]Result, 3)
	pairs := []string{"path", "/login", "peek", ""}
	err := c.Check(acl.Login{}, []Request{
		{Domain: "shop", Pairs: pairs, Cost: 1},
		{Domain: "shop", Cost: -3, DryRun: true},
		{Domain: "shop", Cost: 9, Peek: true},
	}, results)
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	want := "CL.CHECK shop MS -- path /login peek  CL.CHECK shop COST -3 DRYRUN MS -- CL.CHECK shop PEEK MS --"
	if got := words(commands[0]); got != want {
		t.Errorf("commands\n%q, want\n%q", got, want)
	}
	first := Result{Decision: refused, Name: "login", Flags: Warn, Version: 7,
		Limits: []Limit{{Decision: refused, Name: "login", Window: "15m", Period: 15 * time.Minute, Flags: Warn, Wait: 20 * time.Millisecond}}}
	for _, i := range []int{0, 2} {
		if fmt.Sprint(results[i]) != fmt.Sprint(first) {
			t.Errorf("result %d\n%+v, want\n%+v", i, results[i], first)
		}
	}
	var e *Error
	if !errors.As(results[1].Err, &e) || e.Code != "LOADING" || e.Message != "no leader: retry" || !e.Unavailable() {
		t.Errorf("second result: %v, want the error LOADING", results[1].Err)
	}
}

func TestReport(t *testing.T) {
	var commands []string
	c := checkerOf(script{replies: refusal, commands: &commands})
	var result Result
	if err := c.Report(acl.Login{}, &Report{Domain: "shop", Outcome: "status=401", Pairs: []string{"ip", "::1"}, Cost: 2}, &result); err != nil {
		t.Fatalf("Report: %v", err)
	}
	if got, want := words(commands[0]), "CL.REPORT shop OUTCOME status=401 COST 2 MS -- ip ::1"; got != want {
		t.Errorf("command %q, want %q", got, want)
	}
	if result.Decision != refused {
		t.Errorf("decision %+v, want %+v", result.Decision, refused)
	}
}

func TestLimit(t *testing.T) {
	var commands []string
	c := checkerOf(script{replies: "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60000\r\n*6\r\n:1\r\n:2\r\n:0\r\n:9223372036854775807\r\n:1\r\n:0\r\n-ERR invalid\r\n", commands: &commands})
	results := make([]Result, 3)
	if err := c.Limit(acl.Login{}, [][]string{{"CL.THROTTLE", "a", "1", "1", "60"}, {"CL.LEAKY"}, {"CL.WINDOW"}}, results); err != nil {
		t.Fatalf("Limit: %v", err)
	}
	if got, want := words(commands[0]), "CL.THROTTLE a 1 1 60 MS CL.LEAKY MS CL.WINDOW MS"; got != want {
		t.Errorf("commands %q, want %q", got, want)
	}
	if want := (Decision{Limit: 2, Remaining: 1, RetryAfter: -1, ResetAfter: time.Minute}); results[0].Decision != want {
		t.Errorf("first decision %+v, want %+v", results[0].Decision, want)
	}
	if got := results[1].RetryAfter; got != 1<<63-1 {
		t.Errorf("a time out of range is %v, want the longest", got)
	}
	var e *Error
	if !errors.As(results[2].Err, &e) || e.Unavailable() {
		t.Errorf("third result: %v, want an error of the command", results[2].Err)
	}
}

// The attribute before the reply to a limiter command has the flags of the decision.
func TestLimit_Flags(t *testing.T) {
	const five = "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60000\r\n"
	c := checkerOf(script{replies: "|1\r\n$5\r\nflags\r\n~1\r\n$8\r\nfailopen\r\n" + five + five + "|2\r\n$1\r\nx\r\n:1\r\n$5\r\nflags\r\n~2\r\n$5\r\nlocal\r\n$5\r\nother\r\n" + five})
	results := make([]Result, 3)
	if err := c.Limit(acl.Login{}, [][]string{{"CL.THROTTLE"}, {"CL.THROTTLE"}, {"CL.THROTTLE"}}, results); err != nil {
		t.Fatalf("Limit: %v", err)
	}
	for i, flags := range []Flags{FailOpen, 0, Local} {
		want := Decision{Limit: 2, Remaining: 1, RetryAfter: -1, ResetAfter: time.Minute}
		if r := &results[i]; r.Err != nil || r.Decision != want || r.Flags != flags {
			t.Errorf("result %d: %+v, want %+v with the flags %b", i, r, want, flags)
		}
	}
	for _, replies := range []string{"|", "|1\r\n", "|9\r\n" + five, "|1\r\n$5\r\nflags\r\n:1\r\n" + five, "|1\r\n$5\r\nflags\r\n~0\r\n"} {
		c := checkerOf(script{replies: replies})
		if err := c.Limit(acl.Login{}, [][]string{{"CL.THROTTLE"}}, results[:1]); err == nil {
			t.Errorf("%q: no error", replies)
		}
	}
}

// Malformed replies are errors, and their Runner is not used again.
func TestCheck_Malformed(t *testing.T) {
	for _, replies := range []string{"", "-ERR", "*5\r\n", refusal + "x", refusal[:len(refusal)-3], "%1\r\n$4\r\nname\r\n:1\r\n",
		"%1\r\n$4\r\nname\r\n$99\r\nx\r\n", "%99999999999\r\n", "%-1\r\n", "%1\r\n$6\r\nlimits\r\n~0\r\n", "%1\r\n$1\r\nx\r\n" + strings.Repeat("*1\r\n", 20),
		"%1\r\n$6\r\nlimits\r\n*1\r\n%1\r\n$6\r\nwindow\r\n+1\r\n", "%1\r\n$7\r\nversion\r\n:x\r\n"} {
		closed := 0
		c := checkerOf(script{replies: replies, closed: &closed})
		if err := c.Check(acl.Login{}, make([]Request, 1), make([]Result, 1)); err == nil || closed != 1 {
			t.Errorf("%q: error %v, %d closed; want an error, and a closed Runner", replies, err, closed)
		}
	}
}

// Unknown keys and types are skipped.
func TestCheck_Unknown(t *testing.T) {
	c := checkerOf(script{replies: "%5\r\n$1\r\na\r\n%1\r\n:1\r\n*2\r\n~0\r\n_\r\n$1\r\nb\r\n=5\r\ntxt:x\r\n$1\r\nc\r\n#t\r\n$1\r\nd\r\n,1.5\r\n$4\r\nname\r\n$1\r\nx\r\n"})
	results := make([]Result, 1)
	if err := c.Check(acl.Login{}, make([]Request, 1), results); err != nil || results[0].Name != "x" {
		t.Errorf("name %q, error %v", results[0].Name, err)
	}
}

func TestCheck_RunnerFails(t *testing.T) {
	broken, closed := errors.New("broken"), 0
	c := checkerOf(script{err: broken, closed: &closed})
	if err := c.Check(acl.Login{}, make([]Request, 1), make([]Result, 1)); !errors.Is(err, broken) || closed != 1 {
		t.Errorf("error %v, %d closed", err, closed)
	}
}

// Concurrent calls have Runners of their own. Close closes the idle ones.
func TestChecker_Concurrent(t *testing.T) {
	var mu sync.Mutex
	opened, closed := 0, 0
	begun, proceed := make(chan struct{}), make(chan struct{})
	c := New(func() Runner {
		mu.Lock()
		defer mu.Unlock()
		opened++
		return blocking{script{replies: refusal, closed: &closed}, begun, proceed}
	})
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			if err := c.Check(acl.Login{}, make([]Request, 1), make([]Result, 1)); err != nil {
				t.Errorf("Check: %v", err)
			}
		})
	}
	for range 3 {
		<-begun
	}
	close(proceed)
	running.Wait()
	c.Close()
	if opened != 3 || closed != 3 {
		t.Errorf("%d opened, %d closed; want 3 of each", opened, closed)
	}
}

// blocking is a Runner whose Run waits until all others have begun.
type blocking struct {
	script
	begun, proceed chan struct{}
}

func (b blocking) Run(commands, replies []byte) ([]byte, error) {
	b.begun <- struct{}{}
	<-b.proceed
	return b.script.Run(commands, replies)
}

func TestFlags(t *testing.T) {
	if got := (Soft | Uncharged | FailOpen).AppendNames(nil); !reflect.DeepEqual(got, []string{"soft", "failopen", "uncharged"}) {
		t.Errorf("names %q", got)
	}
	for i, name := range flagNames {
		if f := flagOf([]byte(name)); f != 1<<i || !f.Has(1<<i) {
			t.Errorf("flag %q is %b", name, f)
		}
	}
}

func TestCheckDoesNotAllocate(t *testing.T) {
	c := checkerOf(script{replies: refusal})
	reqs, results := []Request{{Domain: "shop", Pairs: []string{"path", "/login"}, Cost: 1}}, make([]Result, 1)
	run := func() {
		if err := c.Check(acl.Login{}, reqs, results); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(100, run); n > 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkCheck(b *testing.B) {
	c := checkerOf(script{replies: refusal})
	reqs, results := []Request{{Domain: "shop", Pairs: []string{"path", "/login", "ip", "192.0.2.1"}, Cost: 1}}, make([]Result, 1)
	for b.Loop() {
		if err := c.Check(acl.Login{}, reqs, results); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzReply(f *testing.F) {
	for _, seed := range []string{refusal, noLeader, limit, "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:60000\r\n", "%1\r\n$1\r\na\r\n*1\r\n*1\r\n_\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, replies string) {
		c := checkerOf(script{replies: replies})
		_ = c.Check(acl.Login{}, make([]Request, 1), make([]Result, 1))
		_ = c.Limit(acl.Login{}, [][]string{{"CL.THROTTLE"}}, make([]Result, 1))
	})
}

func TestWord(t *testing.T) {
	limited := Decision{Limited: true}
	for _, tt := range []struct {
		result Result
		want   string
	}{
		{Result{}, "allow"},
		{Result{Decision: limited}, "deny"},
		{Result{Decision: limited, Flags: Banned}, "deny"},
		{Result{Decision: limited, Flags: FailClosed}, "fail-closed"},
		{Result{Decision: limited, Flags: FailOpen}, "deny"}, // another limit was not decided
		{Result{Flags: FailOpen | Shadow}, "fail-open"},
		{Result{Flags: Shadow}, "shadow-deny"},
		{Result{Flags: Unmatched | Local}, "allow"},
	} {
		if got := tt.result.Word(); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.result, got, tt.want)
		}
	}
}
