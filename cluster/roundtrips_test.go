package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// TestRoundTrips_Slow checks that round trips longer than half of the timeout are counted, and logged once a minute.
func TestRoundTrips_Slow(t *testing.T) {
	const timeout = 250 * time.Millisecond
	var log bytes.Buffer
	r := roundTrips{log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, c := range []struct {
		took, now time.Duration
		lines     int
	}{
		{5 * time.Millisecond, time.Second, 0},
		{125 * time.Millisecond, 2 * time.Second, 0},
		{126 * time.Millisecond, 3 * time.Second, 1},
		{900 * time.Millisecond, 30 * time.Second, 1},
		{200 * time.Millisecond, 63 * time.Second, 2},
	} {
		r.record("n2", c.took, timeout, c.now)
		if got := strings.Count(log.String(), "\n"); got != c.lines {
			t.Fatalf("%d log lines after a round trip of %v at %v, want %d:\n%s", got, c.took, c.now, c.lines, &log)
		}
	}
	if want := (topology.RoundTrips{Answered: 5, Slow: 3, Longest: 900 * time.Millisecond}); r.status() != want {
		t.Errorf("counted %+v, want %+v", r.status(), want)
	}
	if !strings.Contains(log.String(), "node=n2") || !strings.Contains(log.String(), "raft-heartbeat=250ms") {
		t.Errorf("the log does not contain both the node and the timeout:\n%s", &log)
	}
}

// TestRoundTrips_Change checks that round trips are compared with the new heartbeat of the cluster while the heartbeat
// is being changed. During the change, the leader itself runs with the shortest heartbeat of any voter.
func TestRoundTrips_Change(t *testing.T) {
	n := New(soloConfig("n1"))
	c := n.leader.tracker
	if got, want := c.timeout(), n.config.Heartbeat; got != want {
		t.Errorf("before a heartbeat is set the timeout is %v, want %v", got, want)
	}
	n.setting.restore(heartbeats{Version: 3, Now: time.Second, Least: minHeartbeat})
	n.setting.running.Store(int64(minHeartbeat))
	if got := c.timeout(); got != time.Second {
		t.Errorf("while the heartbeat changes the timeout is %v, want 1s", got)
	}
}
