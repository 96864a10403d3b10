package server

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// TestParseLease parses valid draws and returns.
func TestParseLease(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	throttle := limiter.Limit{Max: 16, Interval: 2 * s}
	for _, tt := range []struct {
		line  string
		kind  limiter.Kind
		limit limiter.Limit
		draw  limiter.Draw // without ID
	}{
		{"CL.LEASE 5 1000 THROTTLE k 15 30 60", limiter.Throttle, throttle, limiter.Draw{Hold: s, Lessee: "default"}},
		{"CL.LEASE 5 1001 THROTTLE k 15 30 60", limiter.Throttle, throttle, limiter.Draw{Hold: s, Lessee: "default"}},
		{"CL.LEASE 5 9223372036854775807 THROTTLE k 15 30 60", limiter.Throttle, throttle, limiter.Draw{Hold: s, Lessee: "default"}},
		{"cl.lease 5 20 throttle k 15 30 1m lessee a", limiter.Throttle, throttle, limiter.Draw{Hold: 20 * ms, Lessee: "a"}},
		{"CL.LEASE 5 100 WINDOW k 10 60 FIXED RELAXED", limiter.FixedWindow, limiter.Limit{Max: 10, Interval: 60 * s, Amount: 1},
			limiter.Draw{Hold: 100 * ms, Lessee: "default", Relaxed: true}},
		{"CL.LEASE 5 100 WINDOW k 10 60 RELAXED LESSEE b", limiter.SlidingWindow, limiter.Limit{Max: 10, Interval: 60 * s, Amount: 1},
			limiter.Draw{Hold: 100 * ms, Lessee: "b", Relaxed: true}},
		{"CL.LEASE 5 100 WINDOW k 10 60 BUCKETS 6", limiter.WindowBuckets, limiter.Limit{Max: 10, Interval: 10 * s, Amount: 6},
			limiter.Draw{Hold: 100 * ms, Lessee: "default"}},
		{"CL.LEASE 5 100 BUCKET k 10 5 1", limiter.TokenBucket, limiter.Limit{Max: 10, Interval: s, Amount: 5},
			limiter.Draw{Hold: 100 * ms, Lessee: "default"}},
		{"CL.LEASE 5 100 RAW k scaled-throttle 10 1000000 0", limiter.ScaledThrottle, limiter.Limit{Max: 10, Interval: ms},
			limiter.Draw{Hold: 100 * ms, Lessee: "default"}},
		{"CL.LEASE 5 100 WINDOW k 10 60 LOG", limiter.WindowLog, limiter.Limit{Max: 10, Interval: 60 * s, Amount: 77},
			limiter.Draw{Hold: 100 * ms, Lessee: "default"}},
		{"CL.LEASE 5 100 RAW k log 10 1000000 100", limiter.WindowLog, limiter.Limit{Max: 10, Interval: ms, Amount: 77},
			limiter.Draw{Hold: 100 * ms, Lessee: "default"}},
		{"CL.LEASE.RETURN 000000000000000a:k 5", limiter.Throttle, limiter.Limit{}, limiter.Draw{ID: 10, Lessee: "default", Return: true}},
		{"CL.LEASE.RETURN 000000000000000a:k 5 of 7", limiter.Throttle, limiter.Limit{}, limiter.Draw{ID: 10, Lessee: "default", Return: true, Of: 7}},
	} {
		p := parseCommand(tt.line)
		if p.err != nil {
			t.Errorf("%s: got error %v, want none", tt.line, p.err)
			continue
		}
		req := p.reqs[0]
		draw := *req.Draw
		if !draw.Return {
			if draw.ID == 0 {
				t.Errorf("%s: the lease has no id", tt.line)
			}
			draw.ID = 0
		}
		if string(req.Key) != "k" || req.Kind != tt.kind || req.Limit != tt.limit || req.Quantity != 5 || draw != tt.draw || p.unit != ms {
			t.Errorf("%s: got request %+v with draw %+v, want %v, %+v and %+v", tt.line, req, draw, tt.kind, tt.limit, tt.draw)
		}
	}
}

// TestLeaseErrors checks that the errors of draws and returns name the wrong argument.
func TestLeaseErrors(t *testing.T) {
	for line, want := range map[string]string{
		"CL.LEASE 0 1000 THROTTLE k 15 30 60":                                  `ERR invalid units '0': must be an integer of at least 1`,
		"CL.LEASE -1 1000 THROTTLE k 15 30 60":                                 `ERR invalid units '-1': must be an integer of at least 1`,
		"CL.LEASE 1 19 THROTTLE k 15 30 60":                                    `ERR invalid milliseconds '19': must be an integer of at least 20; at most 1000 are granted`,
		"CL.LEASE 1 -9223372036854 THROTTLE k 15 30 60":                        `ERR invalid milliseconds '-9223372036854': must be an integer of at least 20; at most 1000 are granted`,
		"CL.LEASE 1 -9223372036854775000 THROTTLE k 15 30 60":                  `ERR invalid milliseconds '-9223372036854775000'`,
		"CL.LEASE 1 9223372036854775808 THROTTLE k 15 30 60":                   `ERR invalid milliseconds '9223372036854775808'`,
		"CL.LEASE 1 100 QUEUE k 15 30 60":                                      `ERR the limit of CL.LEASE cannot begin with 'QUEUE': use THROTTLE, WINDOW, BUCKET, LEAKY or RAW`,
		"CL.LEASE 1 100 THROTTLE k 15 30":                                      `ERR the limit of CL.LEASE needs 4 arguments: the syntax is THROTTLE key max_burst count period`,
		"CL.LEASE 1 100 BUCKET k 15 RELAXED x":                                 `ERR invalid refill_amount 'RELAXED'`,
		"CL.LEASE 1 100 THROTTLE k 15 x 60":                                    `ERR invalid count 'x'`,
		"CL.LEASE 1 100 THROTTLE k 15 30 60 LESSEE":                            `ERR LESSEE must be followed by a name of 1 to 64 bytes`,
		"CL.LEASE 1 100 THROTTLE k 15 30 60 1":                                 `ERR unexpected argument '1'`,
		"CL.LEASE 1 100 THROTTLE k 15 30 60 USER other":                        `ERR unexpected argument 'USER'`,
		"CL.LEASE 1 100 RAW k scaled-throttle 1":                               `ERR a raw limit needs 5 arguments: the syntax is RAW key kind max interval amount`,
		"CL.LEASE 1 100 RAW k leaky 10 1000 0":                                 `ERR invalid kind 'leaky': must be one of throttle`,
		"CL.LEASE 1 100 RAW k queue 10 1000 5":                                 `ERR invalid kind 'queue'`,
		"CL.LEASE 1 100 RAW k throttle x 1000 0":                               `ERR invalid max 'x'`,
		"CL.LEASE 1 100 RAW k throttle 0 1000 0":                               `ERR invalid max '0': must be a 64-bit integer of at least 1`,
		"CL.LEASE 1 100 RAW k throttle 9223372036854 10000000 0":               `ERR limit out of range: max * interval must be at most 9223372036854775807 nanoseconds`,
		"CL.LEASE 1 100 RAW k bucket 10 1000 0":                                `ERR invalid amount '0': must be a 64-bit integer of at least 1`,
		"CL.LEASE 1 100 RAW k fixed 10 1000 2":                                 `ERR invalid amount '2': must be 1`,
		"CL.LEASE 1 100 RAW k buckets 10 1000 1025":                            `ERR invalid amount '1025': must be an integer from 1 to 1024`,
		"CL.LEASE 1 100 RAW k sliding 10 9223372036854775807 1":                `ERR limit out of range: interval must be at most 4611686018427387903 nanoseconds`,
		"CL.LEASE 1 100 RAW k throttle 1 0 0":                                  `ERR invalid interval '0': must be a 64-bit integer of at least 1`,
		"CL.LEASE 1 100 RAW k throttle 1 1 1":                                  `ERR invalid amount '1': must be 0`,
		"CL.LEASE 1 100 RAW k scaled-bucket 11 1000000000000000000 1":          `ERR limit out of range: ceil(max / amount) * interval must be at most 9223372036854775807 nanoseconds`,
		"CL.LEASE 1 100 RAW k buckets 10 4611686018427387903 2":                `ERR limit out of range: amount * interval must be at most 4611686018427387903 nanoseconds`,
		"CL.LEASE 1 100 RAW k log 10 1000 -1":                                  `ERR invalid amount '-1'`,
		"CL.LEASE 1 100 THROTTLE k 15 30 60 RELAXED RELAXED":                   `ERR unexpected argument 'RELAXED': use LESSEE name and RELAXED, each at most once`,
		"CL.LEASE 1 100 THROTTLE k 15 30 60 LESSEE a RELAXED LESSEE b":         `ERR unexpected argument 'LESSEE': use LESSEE name and RELAXED, each at most once`,
		"CL.LEASE 1 100 THROTTLE k 15 30 60 LESSEE " + strings.Repeat("n", 65): `ERR invalid lessee: must have 1 to 64 bytes`,
		"CL.LEASE.RETURN k 5":                                                  `ERR invalid id 'k': must be an id from the reply to CL.LEASE`,
		"CL.LEASE.RETURN 0000000000000000:k 5":                                 `ERR invalid id '0000000000000000:k'`,
		"CL.LEASE.RETURN 000000000000000g:k 5":                                 `ERR invalid id '000000000000000g:k'`,
		"CL.LEASE.RETURN 000000000000000a:k 0":                                 `ERR invalid unused '0': must be an integer of at least 1`,
		"CL.LEASE.RETURN 000000000000000a:k 1 USER x":                          `ERR unexpected argument 'USER': use OF units`,
		"CL.LEASE.RETURN 000000000000000a:k 1 RELAXED":                         `ERR unexpected argument 'RELAXED'`,
		"CL.LEASE.RETURN 000000000000000a:k 1 OF":                              `ERR unexpected argument 'OF'`,
		"CL.LEASE.RETURN 000000000000000a:k 1 OF 0":                            `ERR invalid units '0': must be an integer of at least 1`,
		"CL.LEASE.RETURN 000000000000000a:k 1 OF 2 OF 2":                       `ERR unexpected argument 'OF'`,
	} {
		if p := parseCommand(line); p.err == nil || !strings.HasPrefix(p.err.Error(), want) {
			t.Errorf("%s: got %v, want an error that begins with %s", line, p.err, want)
		}
	}
}

// TestForwardedLease checks that a node accepts the user of a draw from another node, and only the user that the node has
// appended: the arguments before it are those of a client.
func TestForwardedLease(t *testing.T) {
	const draw, back = "CL.LEASE 5 100 THROTTLE k 15 30 60", "CL.LEASE.RETURN 000000000000000a:k 5"
	for line, want := range map[string]string{
		draw + " USER app":                       "app",
		draw + " LESSEE a USER app":              "app",
		draw + " USER other USER app":            "ERR unexpected argument 'USER'",
		draw + " USER other LESSEE USER relaxed": "ERR unexpected argument 'USER'",
		draw + " LESSEE USER relaxed":            "ERR LESSEE must be followed by a name",
		back + " USER app":                       "app",
		back + " OF 9 USER app":                  "app",
		back + " USER other USER app":            "ERR unexpected argument 'USER'",
		back + " USER other OF USER relaxed":     "ERR unexpected argument 'USER'",
		"CL.LEASE.RETURN USER app":               "ERR invalid id 'USER'",
	} {
		p := parsing{logEntries: 1, fromNode: true}
		parse, args := parseLease, bytes.Fields([]byte(line))
		if strings.HasPrefix(line, "CL.LEASE.RETURN") {
			parse = parseLeaseReturn
		}
		var got string
		if err := parse(&p, args); err != nil {
			got = err.Error()
		} else {
			got = p.reqs[0].Draw.User
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
