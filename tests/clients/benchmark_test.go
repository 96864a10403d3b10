package clienttests

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// complaint matches output of redis-benchmark that reports a problem.
var complaint = regexp.MustCompile(`(?i)warning|error|could not`)

// keepaliveRemark matches the warning that redis-benchmark always prints for -k 0.
var keepaliveRemark = regexp.MustCompile(`WARNING: Keepalive disabled\. .*\n`)

func TestRedisBenchmark(t *testing.T) {
	path := tool(t, "redis-benchmark", "redis-tools")
	for _, test := range []struct {
		name    string
		args    string
		command string // name in INFO commandstats
		calls   int    // minimum number of calls
		keys    int64  // minimum number of keys
	}{
		{"ping", "-q -t ping -n 100000 -c 200 -P 16", "ping", 200_000, 0},
		{"ping, full report", "-t ping -n 20000 -c 200 -P 16", "ping", 40_000, 0},
		{"throttle", "-q -n 100000 -c 200 -P 16 -r 100000 cl.throttle key:__rand_int__ 15 1 3600", "cl.throttle", 100_000, 10_000},
		{"throttle, one key", "-q -n 50000 -c 50 CL.THROTTLE key 15 1 3600", "cl.throttle", 50_000, 1},
		{"throttle, RESP3", "-3 -q -n 20000 -c 50 -P 4 CL.THROTTLE key 15 1 3600", "cl.throttle", 20_000, 1},
		{"throttle, threads", "--threads 2 -q -n 50000 -c 200 -P 16 CL.THROTTLE key 15 1 3600", "cl.throttle", 50_000, 1},
		{"throttle, csv", "--csv -n 20000 -c 50 CL.THROTTLE key 15 1 3600", "cl.throttle", 20_000, 1},
		{"a connection for each call", "-k 0 -q -t ping -n 2000 -c 50", "ping", 4000, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := start(t, "")
			args := append([]string{"-h", "127.0.0.1", "-p", srv.port(t)}, strings.Fields(test.args)...)
			got := runTool(t, "", path, args...)
			got.err = keepaliveRemark.ReplaceAllString(got.err, "")
			if got.code != 0 || got.err != "" || complaint.MatchString(got.out) {
				t.Errorf("redis-benchmark reports a problem: %+v", got)
			}
			if calls := statistic(t, srv, test.command, "calls"); calls < test.calls {
				t.Errorf("%d calls in commandstats, want at least %d", calls, test.calls)
			}
			if failed := statistic(t, srv, test.command, "failed_calls"); failed > 0 {
				t.Errorf("%d failed calls in commandstats, want 0", failed)
			}
			if keys := srv.ask(t, "DBSIZE").(int64); keys < test.keys {
				t.Errorf("%d keys, want at least %d", keys, test.keys)
			}
		})
	}
}

func TestRedisBenchmark_Password(t *testing.T) {
	path := tool(t, "redis-benchmark", "redis-tools")
	srv := start(t, "secret")
	at := []string{"-h", "127.0.0.1", "-p", srv.port(t), "-q", "-n", "1000", "-t", "ping"}
	if got := runTool(t, "", path, append(at, "-a", "secret")...); got.code != 0 || got.err != "" || complaint.MatchString(got.out) {
		t.Errorf("with the password: got %+v, want exit code 0 and no problem", got)
	}
	if got := runTool(t, "", path, at...); got.code == 0 || !strings.Contains(got.out+got.err, "NOAUTH") {
		t.Errorf("without the password: got %+v, want NOAUTH and a failure", got)
	}
}

// statistic returns a figure of a command from INFO commandstats.
func statistic(t *testing.T, s *server, command, name string) int {
	t.Helper()
	line := s.info(t, "cmdstat_"+command)
	for field := range strings.SplitSeq(line, ",") {
		if value, ok := strings.CutPrefix(field, name+"="); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in %q", name, line)
	return 0
}
