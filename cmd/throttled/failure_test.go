package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// failureWithin is the maximum time of a reply without a leader. The server waits 400 ms for a leader, and the machine may
// be busy.
const failureWithin = 2 * time.Second

const failureRules = `
version: 1
domain: shop
limits:
  api: {when: {path: /api}, allow: 100 per minute}
  login: {when: {path: /login}, allow: 5 per minute, on_failure: closed}
  search: {when: {path: /search}, allow: 1 per day, on_failure: local}
`

// TestProcess_OnFailure kills two of three nodes. The third one must decide CL.CHECK by on_failure.
func TestProcess_OnFailure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(failureRules), 0o600); err != nil {
		t.Fatal(err)
	}
	leader, others := leaderOf(t, newProcesses(t, []string{"n1", "n2", "n3"}, "--rules", file))
	last := others[1]
	last.askUntil("limited:0", "CL.CHECK", "shop", "path", "/api")
	last.askUntil("rules_active_version:1", "INFO", "rules")
	leader.kill()
	others[0].kill()
	client := redis.NewClient(&redis.Options{Addr: last.addr, MaxRetries: -1, DisableIdentity: true, Protocol: 2})
	defer func() { _ = client.Close() }()
	for _, tc := range []struct{ path, want string }{
		{"/api", "[0 9223372036854775807 9223372036854775807 -1 0 api [failopen] "},
		{"/login", "[1 0 0 1 1 login [failclosed] "},
		{"/search", "[0 1 0 -1 86400 search [local] "},
		{"/search", "[1 1 0 86400 86400 search [local] "},
		{"/other", "[0 9223372036854775807 9223372036854775807 -1 0  [unmatched failopen] [] 1]"},
	} {
		start := time.Now()
		got := fmt.Sprint(client.Do(t.Context(), "CL.CHECK", "shop", "path", tc.path).Val())
		if took := time.Since(start); took > failureWithin {
			t.Errorf("path %s: the reply took %v, want at most %v", tc.path, took, failureWithin)
		}
		if !strings.HasPrefix(got, tc.want) {
			t.Errorf("path %s: got %s, want %s", tc.path, got, tc.want)
		}
	}
	if err := client.Do(t.Context(), "CL.THROTTLE", "k", "1", "1", "60").Err(); err == nil || !strings.HasPrefix(err.Error(), "LOADING") {
		t.Errorf("CL.THROTTLE: got error %v, want LOADING", err)
	}
}
