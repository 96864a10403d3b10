package server

import (
	"bytes"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
)

// FuzzLease parses arbitrary words as CL.LEASE, and returns the lease that an engine grants. A draw that is accepted has valid
// fields and the user of the client, an engine grants at most the limit for it, and credits a return of all units once.
func FuzzLease(f *testing.F) {
	for _, line := range []string{
		"5 1000 THROTTLE k 15 30 60", "5 20 throttle k 15 30 1m lessee a", "5 100 WINDOW k 10 60 FIXED RELAXED", "5 100 WINDOW k 10 60 RELAXED LESSEE b", "5 100 WINDOW k 10 60 BUCKETS 6",
		"5 100 WINDOW k 10 60 LOG", "5 100 BUCKET k 10 5 1", "5 100 LEAKY k 10 5 1", "5 100 RAW k scaled-throttle 10 1000000 0", "5 100 RAW k log 10 1000000 100", "5 100 RAW k calendar 10 1000000 5",
		"9223372036854775807 1000 RAW k throttle 9223372036 1000000000 0", "1 1000 RAW k bucket 9223372036854775807 1 9223372036854775807", "1 1000 RAW k sliding 9223372036854775807 3155760000000000000 1",
		"1 19 THROTTLE k 15 30 60", "1 1001 THROTTLE k 15 30 60", "1 9223372036854775807 THROTTLE k 15 30 60", "1 100 THROTTLE k 15 30 60 USER other", "1 100 THROTTLE k 15 30 60 LESSEE USER app", "1 100 RAW k throttle 9223372036854 10000000 0", "1 100 RAW k buckets 10 1000 1025",
		"1 100 THROTTLE k 0 1 60 USER other USER app", "1 100 RAW  throttle 1 1 0", "1 100 WINDOW LOG 1 1 LOG",
	} {
		f.Add(line, false)
		f.Add(line+" USER app", true)
	}
	f.Add("5 100 THROTTLE k 15 30 60 USER "+strings.Repeat("n", limiter.MaxLessee+1), true)
	f.Fuzz(func(t *testing.T, line string, fromNode bool) {
		args := bytes.Split([]byte("cl.lease "+line), []byte(" "))
		p, accepted := parseFuzzed(t, args, fromNode)
		if !accepted {
			return
		}
		req := &p.reqs[0]
		d := req.Draw
		if d.Return || d.ID == 0 || d.Hold < limiter.MinHold || d.Hold > limiter.MaxHold || len(d.Lessee) < 1 || len(d.Lessee) > limiter.MaxLessee || !bytes.Equal(req.Key, args[leaseKey.first]) {
			t.Fatalf("%q: invalid request %+v with draw %+v", line, req, d)
		}
		if strings.EqualFold(string(args[3]), rawWord) && !fitsSlowly(req) {
			t.Errorf("%q: the limit %+v of kind %v overflows", line, req.Limit, req.Kind)
		}
		returnFuzzed(t, line, req)
	})
}

// parseFuzzed parses a command about leases of the user "me", or of the user that another node has appended. The errors of a
// command that is refused have error replies. A command that is accepted has one request.
func parseFuzzed(t *testing.T, args [][]byte, fromNode bool) (p parsing, accepted bool) {
	t.Helper()
	cmd := testCommands.named(string(args[0]))
	if !cmd.arityFits(len(args)) {
		return p, false
	}
	p = parsing{logEntries: 100, fromNode: fromNode, user: "me"}
	if err := cmd.parse(&p, args); err != nil {
		if _, known := asReply(err); !known {
			t.Fatalf("%q: got error %v, want one with an error reply", args, err)
		}
		return p, false
	}
	user := "me"
	if n := len(args); fromNode && strings.EqualFold(string(args[n-2]), "user") {
		user = string(args[n-1])
	}
	if len(p.reqs) != 1 || p.reqs[0].Draw == nil || !p.draws || p.reqs[0].Quantity < 1 || p.reqs[0].Draw.User != user {
		t.Fatalf("%q: invalid requests %+v, want one of %s", args, p.reqs, user)
	}
	return p, true
}

// fitsSlowly reports whether the time in which a limit is restored, and its window, can be expressed in nanoseconds.
func fitsSlowly(req *limiter.Request) bool {
	l := req.Limit
	steps, parts := big.NewInt(1), big.NewInt(1)
	switch req.Kind {
	case limiter.Throttle, limiter.ScaledThrottle:
		steps.SetInt64(l.Max)
	case limiter.TokenBucket, limiter.ScaledBucket: // refills until the bucket is full, rounded up
		steps.Add(big.NewInt(l.Max), big.NewInt(l.Amount-1)).Quo(steps, big.NewInt(l.Amount))
	case limiter.WindowBuckets:
		parts.SetInt64(l.Amount)
	}
	total := steps.Mul(steps, parts).Mul(steps, big.NewInt(int64(l.Interval)))
	return l.Max > 0 && l.Interval > 0 && total.IsInt64()
}

// returnFuzzed draws a lease from an empty table, and returns all of its units twice.
func returnFuzzed(t *testing.T, line string, req *limiter.Request) {
	t.Helper()
	table := buckets.New(buckets.Config{Shards: 1, Clock: func() uint64 { return uint64(1000 * time.Hour) }})
	out := make([]limiter.Decision, 1)
	d := req.Draw
	table.Decide([]limiter.Request{*req}, out)
	if d.Granted < 0 || d.Granted > min(req.Quantity, req.Limit.Max) || out[0].Err != nil && d.Granted != 0 || d.Valid > d.Hold {
		t.Fatalf("%q: %d units for %v are granted, want at most %d of %d for %v; decision %+v", line, d.Granted, d.Valid, req.Quantity, req.Limit.Max, d.Hold, out[0])
	}
	if d.Granted == 0 {
		return
	}
	args := [][]byte{[]byte("cl.lease.return"), limiter.AppendLeaseID(nil, d.ID, req.Key), strconv.AppendInt(nil, d.Granted, 10), []byte("OF"), strconv.AppendInt(nil, d.Granted, 10), []byte("USER"), []byte(d.User)}
	p, accepted := parseFuzzed(t, args, true)
	if !accepted || p.reqs[0].Draw.ID != d.ID || !bytes.Equal(p.reqs[0].Key, req.Key) {
		t.Fatalf("%q: the return of %+v is parsed as %+v", line, d, p.reqs)
	}
	for _, want := range []int64{d.Granted, 0} {
		table.Decide(p.reqs, out)
		if got := p.reqs[0].Draw.Granted; got != want {
			t.Errorf("%q: a return of %d units credits %d, want %d", line, d.Granted, got, want)
		}
	}
}

// FuzzLeaseReturn parses arbitrary words as CL.LEASE.RETURN. A return that is accepted has the number and the key of the id, and
// credits nothing, since the engine has no leases.
func FuzzLeaseReturn(f *testing.F) {
	for _, line := range []string{
		"000000000000000a:k 5", "000000000000000a:k 5 of 7", "k 5", "0000000000000000:k 5", "000000000000000g:k 5", "000000000000000A:k 5", "000000000000000a: 0", "000000000000000a:k 1 RELAXED",
		"000000000000000a:k 1 OF", "000000000000000a:k 1 OF 0", "000000000000000a:k 9223372036854775807 OF 9223372036854775807", "000000000000000a:k 5 USER other", "000000000000000a:k 1 OF 2 OF 2", "USER app",
	} {
		f.Add(line, false)
		f.Add(line+" USER app", true)
	}
	f.Fuzz(func(t *testing.T, line string, fromNode bool) {
		args := bytes.Split([]byte("cl.lease.return "+line), []byte(" "))
		p, accepted := parseFuzzed(t, args, fromNode)
		if !accepted {
			return
		}
		req := &p.reqs[0]
		if d := req.Draw; !d.Return || d.Of < 0 || string(limiter.AppendLeaseID(nil, d.ID, req.Key)) != string(args[1]) {
			t.Fatalf("%q: invalid request %+v with draw %+v", line, req, d)
		}
		out := make([]limiter.Decision, 1)
		buckets.New(buckets.Config{Shards: 1}).Decide(p.reqs, out)
		if req.Draw.Granted != 0 {
			t.Errorf("%q: %d units are credited, want 0", line, req.Draw.Granted)
		}
	})
}
