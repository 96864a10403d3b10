package gcra

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// testdata/vectors.json holds groups of calls, and for each call the replies of
// redis-cell, Dragonfly and the GCRA of Redis: five integers or the text of an error. The
// calls of a group use one key of an empty keyspace.
//
//go:embed testdata/vectors.json
var vectorsJSON []byte

// vector is one call, or a value stored under the key by another command.
type vector struct {
	Group     string
	N         int      // number of the call; 0 if a value is stored
	TNs       uint64   `json:"t_ns"` // nanoseconds since t0_ns
	Args      []string // after the key
	RedisCell reply    `json:"redis_cell"`
	Set       *string  // SET key value
	RPush     bool     // RPUSH key x
}

// reply is a reply as text: five integers with a space between, or an error.
type reply string

func (r *reply) UnmarshalJSON(b []byte) error {
	var ints [5]int64
	if json.Unmarshal(b, &ints) == nil {
		*r = integers(ints)
		return nil
	}
	return json.Unmarshal(b, (*string)(r))
}

func integers(v [5]int64) reply {
	return reply(fmt.Sprintf("%d %d %d %d %d", v[0], v[1], v[2], v[3], v[4]))
}

const (
	errInteger = "ERR value is not an integer or out of range"
	errArity   = "ERR wrong number of arguments for 'cl.throttle' command"
	errKind    = "WRONGTYPE Operation against a key holding the wrong kind of value"
)

// The reasons why replies differ from the replies of redis-cell.
const (
	ruleCeiling   = "seconds are a true ceiling; redis-cell drops the part under 1 ms"
	ruleInterval  = "the emission interval is rounded up, to at least 1 ns"
	ruleRemaining = "remaining is an integer division of nanoseconds, clamped to 0..limit"
	ruleRefund    = "a refund stops at a full bucket, and is never an error"
	ruleRest      = "a TAT that has passed is a bucket at rest"
	ruleRange     = "max_burst < 0, count <= 0, period <= 0 or a product out of int64 is an error"
	ruleOversize  = "a quantity above the limit is refused and charges nothing; no product wraps"
	ruleFarTAT    = "a TAT counts as at most 1<<63 - 1 ns ahead"
	ruleInteger   = "an argument that is not an int64 in decimal is an error, with one text for all"
	ruleArity     = "a wrong number of arguments is an error, with the text of Redis"
	ruleKind      = "a value that is not a TAT is a key of another kind, and does not crash the server"
)

// overrides holds the expected replies that differ from the replies of redis-cell, by number
// of the call.
var overrides = map[int]struct {
	want reply
	rule string
}{
	25: {"1 1 0 1 1", ruleCeiling},
	26: {"1 1 0 1 1", ruleCeiling + "; " + ruleRemaining},
	27: {"1 1 0 1 1", ruleInterval},
	28: {"0 1 0 -1 3", ruleCeiling},
	29: {"1 1 0 3 3", ruleCeiling},
	30: {"1 1 0 1 1", ruleCeiling},
	31: {"0 1 0 -1 3", ruleCeiling},

	43: {"0 16 16 -1 0", ruleRefund},
	44: {"1 16 16 -1 0", ruleRest + "; " + ruleRemaining},
	46: {"0 16 16 -1 0", ruleRefund},
	48: {"0 5 5 -1 0", ruleRefund},
	49: {"0 16 16 -1 0", ruleRefund},
	50: {"0 16 15 -1 2", ruleRefund},

	51: {"0 1 0 -1 1", ruleCeiling},
	52: {"0 1 0 -1 1", ruleInterval + "; " + ruleCeiling},
	53: {"0 1 0 -1 1", ruleCeiling},
	54: {"0 3 3 -1 0", ruleRemaining},
	55: {"0 1001 1001 -1 0", ruleRemaining},
	56: {"0 6001 6000 -1 1", ruleRemaining + "; " + ruleCeiling},
	57: {"0 21 20 -1 1", ruleCeiling},
	58: {"0 11 10 -1 1", ruleCeiling},
	59: {"0 5 3 -1 1", ruleCeiling},

	60: {errInteger, ruleRange},
	61: {errInteger, ruleRange},
	62: {errInteger, ruleRange},
	63: {errInteger, ruleRange},
	64: {errInteger, ruleRange},
	65: {errInteger, ruleRange},
	66: {errInteger, ruleRange},
	67: {errInteger, ruleRange},
	68: {errInteger, ruleRange},
	69: {errInteger, ruleRange},
	70: {errInteger, ruleRange},
	71: {errInteger, ruleRange},
	72: {errInteger, ruleRange},
	73: {errInteger, ruleRange},
	75: {errInteger, ruleRange},
	76: {errInteger, ruleRange},
	77: {errInteger, ruleRange},
	78: {errInteger, ruleRange},
	79: {"1 16 16 -1 0", ruleOversize},
	81: {"1 16 13 -1 6", ruleOversize},

	85: {errInteger, ruleInteger},
	86: {errInteger, ruleInteger},
	87: {errInteger, ruleInteger},
	88: {errInteger, ruleInteger},
	89: {errInteger, ruleInteger},
	90: {errArity, ruleArity},
	91: {errArity, ruleArity},
	92: {errInteger, ruleInteger},
	93: {errInteger, ruleInteger},

	94:  {"1 5 5 -1 0", ruleRest + "; " + ruleRemaining},
	97:  {"1 5 0 9223372033 9223372037", ruleFarTAT},
	98:  {errKind, ruleKind},
	99:  {errKind, ruleKind},
	100: {errKind, ruleKind},
	101: {errKind, ruleKind},
	102: {errKind, ruleKind},

	117: {"1 2 0 1 2", ruleCeiling},
}

// A key takes the place of a server with one key. It calls Decide, and has only the features
// that the vectors need.
type key struct {
	tat     uint64
	foreign bool // holds a value that is not a TAT
}

func (k *key) set(v vector) {
	if v.RPush {
		*k = key{foreign: true}
		return
	}
	tat, err := strconv.ParseUint(*v.Set, 10, 64)
	*k = key{tat: tat, foreign: err != nil}
}

// call executes CL.THROTTLE with the arguments after the key.
func (k *key) call(now uint64, args []string) reply {
	if len(args) < 3 || len(args) > 4 {
		return errArity
	}
	n := [4]int64{3: 1}
	for i, a := range args {
		var err error
		if n[i], err = strconv.ParseInt(a, 10, 64); err != nil {
			return errInteger
		}
	}
	l, err := NewLimit(n[0], n[1], limiter.Seconds(n[2]))
	if err != nil {
		return errInteger
	}
	if k.foreign {
		return errKind
	}
	tat, d := Decide(l, k.tat, now, n[3])
	k.tat = tat
	limited := int64(0)
	if d.Limited {
		limited = 1
	}
	return integers([5]int64{limited, d.Limit, d.Remaining, limiter.Ceil(d.RetryAfter, time.Second), limiter.Ceil(d.ResetAfter, time.Second)})
}

// TestVectors compares the reply to each call with the reply of redis-cell. If the call has an
// override, the reply must be equal to the override, and different from the reply of redis-cell.
func TestVectors(t *testing.T) {
	const calls = 118
	var file struct {
		T0      uint64 `json:"t0_ns"`
		Vectors []vector
	}
	if err := json.Unmarshal(vectorsJSON, &file); err != nil {
		t.Fatal(err)
	}
	keys, seen := map[string]*key{}, map[int]bool{}
	for _, v := range file.Vectors {
		k := keys[v.Group]
		if k == nil {
			k = new(key)
			keys[v.Group] = k
		}
		if v.N == 0 {
			k.set(v)
			continue
		}
		if seen[v.N] || v.N < 1 || v.N > calls {
			t.Errorf("call %d: the number is used twice or out of range", v.N)
		}
		seen[v.N] = true
		got := k.call(file.T0+v.TNs, v.Args)
		o, differs := overrides[v.N]
		switch {
		case !differs && got != v.RedisCell:
			t.Errorf("call %d: %s %q = %q, redis-cell returns %q", v.N, v.Group, v.Args, got, v.RedisCell)
		case differs && got != o.want:
			t.Errorf("call %d: %s %q = %q, want %q (%s)", v.N, v.Group, v.Args, got, o.want, o.rule)
		case differs && got == v.RedisCell:
			t.Errorf("call %d: %s %q = %q, as in redis-cell: the override (%s) is not needed", v.N, v.Group, v.Args, got, o.rule)
		}
	}
	if len(seen) != calls {
		t.Errorf("vectors.json has %d calls, want %d", len(seen), calls)
	}
	for n := range overrides {
		if !seen[n] {
			t.Errorf("override %d has no call", n)
		}
	}
}
