package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
)

// leasedRecord draws a lease of 2 units on a key of a table, and returns the record of the key.
func leasedRecord(t *testing.T, kind limiter.Kind, l limiter.Limit) (rec limiter.Record) {
	t.Helper()
	table := buckets.New(buckets.Config{Clock: func() uint64 { return epoch }})
	d := &limiter.Draw{ID: 0xabc, User: "app", Lessee: "sidecar-1", Hold: 100 * time.Millisecond}
	table.Decide([]limiter.Request{{Kind: kind, Key: []byte("k"), Limit: l, Quantity: 2, Draw: d}}, make([]limiter.Decision, 1))
	if d.Granted != 2 {
		t.Fatalf("%d units are granted, want 2", d.Granted)
	}
	for rec = range table.Records() {
		return rec
	}
	return rec
}

// TestDump_Leases checks the line of a key with a lease, and its row in the output of check.
func TestDump_Leases(t *testing.T) {
	const leases = `"leases":[{"id":"0000000000000abc","user":"app","lessee":"sidecar-1","units":2,"ttl_ns":100000000}]}`
	for _, tt := range []struct {
		kind limiter.Kind
		l    limiter.Limit
		want string
	}{
		{limiter.Throttle, limiter.Limit{Max: 10, Interval: time.Second}, `"kind":"throttle","algorithm":"gcra","expires_ns":3600002100000000,"ttl_ns":2100000000,"used_percent":20,`},
		{limiter.ScaledThrottle, limiter.Limit{Max: 10, Interval: time.Second}, `"kind":"throttle","algorithm":"gcra","rules":true,"expires_ns":3600002100000000,"ttl_ns":2100000000,"used_percent":20,"used":3,"interval_ns":1000000000,`},
		{limiter.FixedWindow, limiter.Limit{Max: 8, Interval: time.Minute, Amount: 1}, `"kind":"window","algorithm":"fixed","expires_ns":3600060000000000,"ttl_ns":60000000000,"used_percent":25,"used":2,"window_ns":60000000000,"begin_ns":3600000000000000,"counts":[2],`},
	} {
		rec := leasedRecord(t, tt.kind, tt.l)
		got, err := json.Marshal(newLine(&rec, epoch))
		if want := `{"key":"k",` + tt.want + leases; err != nil || string(got) != want {
			t.Errorf("%v: error %v, line\n%s\nwant\n%s", tt.kind, err, got, want)
		}
		var c contents
		var rows []string
		c.add(&rec, epoch)
		c.rows(func(name, _ string, _ ...any) { rows = append(rows, name) })
		if !strings.HasSuffix(rows[0], " with leases") {
			t.Errorf("%v: check has the rows %q, want one of a kind with leases", tt.kind, rows)
		}
		rec.State = []byte("state")
		if got, _ := json.Marshal(newLine(&rec, epoch)); !strings.HasSuffix(string(got), `"state_base64":"c3RhdGU="}`) {
			t.Errorf("%v: the line of a malformed state is %s, want the state", tt.kind, got)
		}
	}
}
