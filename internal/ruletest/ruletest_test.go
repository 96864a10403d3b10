package ruletest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/rules"
)

// fakeServer admits 2 requests per case and minute, and records the calls.
type fakeServer struct {
	now   time.Time
	used  map[int64]int
	calls []string
	err   error // of Begin
}

func (f *fakeServer) Begin(start time.Time) error {
	f.now, f.used = start, map[int64]int{}
	f.calls = append(f.calls, "begin "+start.Format(time.TimeOnly))
	return f.err
}

func (f *fakeServer) Advance(now time.Time) error { f.now = now; return nil }

func (f *fakeServer) Check(domain string, s *rules.TestStep) (Decision, error) {
	f.calls = append(f.calls, domain+" check "+f.now.Format(time.TimeOnly))
	if domain == "unknown" {
		return Decision{}, errors.New("unknown domain")
	}
	minute := f.now.Unix() / 60
	d := Decision{Limit: 2, RetryAfter: -1, ResetAfter: 90*time.Second + time.Nanosecond, By: "two", Flags: []string{"warn", "soft"}, Limits: []string{"two"}}
	if f.used[minute]++; f.used[minute] > 2 {
		d.Limited, d.RetryAfter = true, time.Minute
	}
	d.Remaining = max(2-int64(f.used[minute]), 0)
	return d, nil
}

func (f *fakeServer) Report(domain string, s *rules.TestStep) (Decision, error) {
	f.calls = append(f.calls, domain+" report "+f.now.Format(time.TimeOnly))
	if s.Status == 500 {
		return Decision{}, errors.New("bad status")
	}
	return Decision{Limited: s.Cost > 2, RetryAfter: -1}, nil
}

// run runs the cases in text.
func run(t *testing.T, f *fakeServer, text string) (passed bool, output string) {
	t.Helper()
	tests, err := rules.ParseTests("a/x_test.yaml", []byte("rules: x.yaml\ncases:\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	passed, err = Run("a/x_test.yaml", "d", tests, f, &b)
	if err != nil {
		t.Fatal(err)
	}
	return passed, b.String()
}

func TestRun(t *testing.T) {
	f := &fakeServer{}
	passed, output := run(t, f, `
  one:
    - {check: {a: b}, times: 2, expect: admitted}
    - {check: {a: b}, expect: {decision: refused, by: two, limit: 2, remaining: 0, retry_after: 1m, reset_after: 90001ms, flags: [soft, warn], limits: two}}
    - {wait: 60s}
    - {check: {a: b}, domain: e, expect: {decision: admitted, retry_after: none, remaining: 1}}
    - {at: 2027-01-01T06:00:00+01:00, report: {a: b}, status: 401, times: 2, expect: {decision: admitted, remaining: 0}}
  two:
    - {check: {a: b}}
`)
	if !passed || output != "ok\ta/x_test.yaml\t2 cases\n" {
		t.Error(output)
	}
	const want = "begin 00:00:00, d check 00:00:00, d check 00:00:00, d check 00:00:00, e check 00:01:00, d report 06:00:00, d report 06:00:00, begin 00:00:00, d check 00:00:00"
	if got := strings.Join(f.calls, ", "); got != want {
		t.Errorf("calls %s\nwant  %s", got, want)
	}
}

func TestRun_Fails(t *testing.T) {
	passed, output := run(t, &fakeServer{}, `
  all differ:
    - {check: {b: c, a: b}, expect: {decision: refused, by: one, limit: 3, remaining: 4, retry_after: 1s, reset_after: 0, flags: [], limits: []}}
  third request:
    - {check: {a: b}, times: 5, expect: admitted}
    - {wait: 1m, check: {}, expect: refused}
  passes:
    - {check: {}}
  before:
    - {at: 2026-12-31T23:59:59Z}
    - {check: {}, expect: refused}
  errors:
    - {check: {a: b}, domain: unknown}
  reports:
    - {report: {a: b}, status: 500}
  reports differ:
    - {report: {a: b}, status: 401, cost: 3, times: 2, expect: admitted}
`)
	const want = `--- FAIL: all differ (a/x_test.yaml:4)
    x_test.yaml:5: check a=b b=c: decision is admitted, want refused; by is "two", want "one"; limit is 2, want 3; remaining is 1, want 4; retry_after is none, want 1s; reset_after is 1m30.001s, want 0s; flags is [soft warn], want []; limits is [two], want []
--- FAIL: third request (a/x_test.yaml:6)
    x_test.yaml:7: check a=b (request 3 of 5): decision is refused, want admitted
    x_test.yaml:8: check : decision is admitted, want refused
--- FAIL: before (a/x_test.yaml:11)
    x_test.yaml:12: the time 2026-12-31T23:59:59Z is before that of the step before, 2027-01-01T00:00:00Z
--- FAIL: errors (a/x_test.yaml:14)
    x_test.yaml:15: check a=b: unknown domain
--- FAIL: reports (a/x_test.yaml:16)
    x_test.yaml:17: report a=b: bad status
--- FAIL: reports differ (a/x_test.yaml:18)
    x_test.yaml:19: report a=b (request 1 of 2): decision is refused, want admitted
FAIL	a/x_test.yaml	6 of 7 cases
`
	if passed || output != want {
		t.Errorf("got\n%s\nwant\n%s", output, want)
	}
}

func TestRun_Begin(t *testing.T) {
	passed, output := run(t, &fakeServer{err: errors.New("no server")}, "  one: [{check: {}}]\n")
	if passed || !strings.Contains(output, "x_test.yaml:3: no server") {
		t.Error(output)
	}
}
