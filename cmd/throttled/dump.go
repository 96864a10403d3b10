package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os/signal"
	"syscall"
	"unicode/utf8"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/gcra"
	"github.com/throttledhq/throttled/lease"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/tokenbucket"
	"github.com/throttledhq/throttled/window"
	"github.com/throttledhq/throttled/windowlog"
)

// line is a record as printed by dump. Times are whole nanoseconds of limiter time. JSON readers that store numbers as
// floating point may round them. The state of a key does not contain its limit, which is an argument of each request.
type line struct {
	Key       *string `json:"key,omitempty"`        // nil if not valid UTF-8
	KeyBase64 []byte  `json:"key_base64,omitempty"` // set if Key is nil
	Kind      string  `json:"kind"`                 // as in the reply of TYPE
	Algorithm string  `json:"algorithm"`            // as in the reply of OBJECT ENCODING
	Rules     bool    `json:"rules,omitempty"`      // whether the key belongs to rules
	Expires   uint64  `json:"expires_ns"`           // time from which the key is equivalent to an absent key
	TTL       uint64  `json:"ttl_ns"`               // time until then; 0 if expired
	Percent   *int    `json:"used_percent,omitempty"`
	Used      *uint64 `json:"used,omitempty"` // units in use
	details
	Leases []leaseLine `json:"leases,omitempty"`       // outstanding leases, whose units are in use
	State  []byte      `json:"state_base64,omitempty"` // of a state that cannot be decoded
}

// leaseLine is an outstanding lease of a key.
type leaseLine struct {
	ID     string `json:"id"` // 16 hexadecimal digits
	User   string `json:"user"`
	Lessee string `json:"lessee"`
	Units  int64  `json:"units"` // granted and not returned
	TTL    uint64 `json:"ttl_ns"`
}

// details are the parts of a line that depend on the algorithm.
type details struct {
	Interval uint64   `json:"interval_ns,omitempty"` // time between refills, or in which one unit is restored
	Refill   int64    `json:"refill,omitempty"`      // tokens of a refill
	Refilled *uint64  `json:"refilled_ns,omitempty"` // time of the last refill, after which the tokens in Used are in use
	Window   uint64   `json:"window_ns,omitempty"`   // length of the window
	Begin    *uint64  `json:"begin_ns,omitempty"`    // start of the newest part of the window
	Counts   []uint64 `json:"counts,omitempty"`      // of the parts of the window, oldest first
	Requests int      `json:"requests,omitempty"`    // in a log
	First    *uint64  `json:"first_ns,omitempty"`    // time of the oldest of them
	Last     *uint64  `json:"last_ns,omitempty"`     // time of the newest of them
}

// newLine returns the line of a record at time now.
func newLine(r *limiter.Record, now uint64) line {
	l := line{Kind: r.Kind.String(), Algorithm: r.Kind.Encoding(), Rules: r.Kind.OfRules(), Expires: r.Expires, TTL: max(r.Expires, now) - now}
	if utf8.Valid(r.Key) {
		key := string(r.Key)
		l.Key = &key
	} else {
		l.KeyBase64 = r.Key
	}
	if l.TTL == 0 {
		return l // the full limit is available
	}
	if share, known := buckets.UsedShare(r, now); known && r.Kind != limiter.Ban {
		percent := int(math.Round(100 * share))
		l.Percent = &percent
	}
	if !l.decodeLeases(r, now) {
		l.State = r.State
	}
	return l
}

// decodeLeases adds the outstanding leases and the details of a state that has not expired at time now. It reports false
// if the state is malformed.
func (l *line) decodeLeases(r *limiter.Record, now uint64) (ok bool) {
	if !r.Kind.Leased() {
		return l.decode(r, now)
	}
	whole := limiter.State{Expires: r.Expires, Data: r.State}
	for e := range lease.All(whole, now) {
		l.Leases = append(l.Leases, leaseLine{fmt.Sprintf("%016x", e.ID), e.User, e.Lessee, e.Units, uint64(e.Left)})
	}
	inner := lease.Inner(whole)
	if inner.Expires <= now {
		return len(l.Leases) > 0 // all units are restored, but a lease has not ended
	}
	return l.decode(&limiter.Record{Kind: r.Kind.Base(), Key: r.Key, Expires: inner.Expires, State: inner.Data}, now)
}

// decode adds the details of a state that has not expired at time now. It reports false if the state is malformed.
func (l *line) decode(r *limiter.Record, now uint64) (ok bool) {
	state := limiter.State{Expires: r.Expires, Data: r.State}
	var used uint64
	switch r.Kind {
	case limiter.Throttle, limiter.LeakyBucket, limiter.Ban:
		return len(r.State) == 0
	case limiter.ScaledThrottle, limiter.ScaledLeaky:
		used, ok = l.restoring(state, now)
	case limiter.SlidingWindow, limiter.FixedWindow, limiter.WindowBuckets:
		used, ok = l.windows(state, now, r.Kind == limiter.SlidingWindow)
	case limiter.Calendar:
		used, ok = window.StoredCalendar(state)
	case limiter.WindowLog:
		used, ok = l.log(state, now)
	case limiter.TokenBucket:
		used, ok = l.tokens(state)
	case limiter.ScaledBucket:
		used, ok = l.refills(state, now)
	}
	if ok {
		l.Used = &used
	}
	return ok
}

// restoring adds the details of a limit whose units are restored one by one.
func (l *line) restoring(state limiter.State, now uint64) (used uint64, ok bool) {
	interval, used, ok := gcra.Stored(state, now)
	l.Interval = uint64(interval)
	return used, ok
}

// windows adds the details of a window of one or several parts.
func (l *line) windows(state limiter.State, now uint64, sliding bool) (used uint64, ok bool) {
	c, ok := window.Stored(state, now, sliding)
	if !ok {
		return 0, false
	}
	l.Window, l.Begin, l.Counts = uint64(c.Width)*uint64(len(c.Counts)), &c.Begin, c.Counts
	if sliding { // the counts are those of two windows
		l.Window = uint64(c.Width)
	}
	return c.Used, true
}

// log adds the details of a log of requests.
func (l *line) log(state limiter.State, now uint64) (used uint64, ok bool) {
	c, ok := windowlog.Stored(state, now)
	if ok {
		l.Window, l.Requests, l.First, l.Last = uint64(c.Window), c.Requests, &c.First, &c.Last
	}
	return c.Used, ok
}

// tokens adds the details of a token bucket, whose refills are not stored.
func (l *line) tokens(state limiter.State) (used uint64, ok bool) {
	c, ok := tokenbucket.Stored(state)
	if ok {
		l.Refilled = &c.Anchor
	}
	return c.Used, ok
}

// refills adds the details of a token bucket of rules, whose refills are stored.
func (l *line) refills(state limiter.State, now uint64) (used uint64, ok bool) {
	c, refills, ok := tokenbucket.StoredScaled(state, now)
	if ok {
		l.Refilled, l.Interval, l.Refill = &c.Anchor, uint64(refills.Interval), refills.Amount
	}
	return c.Used, ok
}

// dumpRecords prints the lines of the given keys.
func dumpRecords(ctx context.Context, w io.Writer, k keys) error {
	signal.Ignore(syscall.SIGPIPE) // writing to a closed pipe returns an error instead
	buffered := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	err := context.Cause(ctx)
	for r := range k.records {
		if err != nil {
			break
		}
		if err = enc.Encode(newLine(&r, k.now)); err == nil {
			err = context.Cause(ctx)
		}
	}
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return fmt.Errorf("print the keys: %w", err)
	}
	return nil
}
