package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const outOfMemory = "-OOM command not allowed when used memory > 'maxmemory'.\r\n"

// until polls the function holds, and returns when it reports true. The parameter what describes the
// condition in the error.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(patience); !holds(); {
		select {
		case <-ticker.C:
		case <-end:
			t.Fatalf("timeout: it is still not true that %s", what)
		}
	}
}

// TestProgramLowersMaxMemory checks that new keys are refused immediately after maxmemory is lowered, and that keys are
// evicted if the policy allows it. It tests programs with and without a replicated log.
func TestProgramLowersMaxMemory(t *testing.T) {
	for _, durable := range []bool{false, true} {
		for _, policy := range []string{"noeviction", "evict-smallest-debt"} {
			args := []string{"--maxmemory-policy", policy}
			if durable {
				args = append(args, "--data-dir", t.TempDir())
			}
			r := start(t, args...)
			until(t, "the server decides", func() bool { return strings.HasPrefix(r.ask("CL.THROTTLE first 0 1 1d"), "*5") })
			charge := make([]string, 500)
			for from := range 20 {
				for i := range charge {
					charge[i] = fmt.Sprintf("CL.THROTTLE key:%d:%d 9 1 1d", from, i)
				}
				r.ask(charge...)
			}
			before := r.table.Usage()
			limit := before.Bytes / 3
			r.wants("+OK\r\n"+outOfMemory, fmt.Sprintf("CONFIG SET maxmemory %d", limit), "CL.THROTTLE new 9 1 1d")
			if policy == "noeviction" {
				r.wants(outOfMemory, "CL.THROTTLE new 9 1 1d")
				if u := r.table.Usage(); u.Evicted > 0 || u.Keys != before.Keys {
					t.Errorf("with %q the usage was %+v before maxmemory was lowered, and is %+v; want the same keys, none evicted", args, before, u)
				}
			} else {
				until(t, "the limit is reached", func() bool { return r.table.Memory() <= limit })
				if reply := r.ask("CL.THROTTLE first 0 1 1d"); !strings.HasPrefix(reply, "*5\r\n:1\r\n") {
					t.Errorf("with %q CL.THROTTLE of the exhausted key returns %q, want a refusal", args, reply)
				}
			}
			r.stop()
			r.wait()
		}
	}
}
