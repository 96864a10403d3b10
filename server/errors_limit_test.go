package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
)

// holders lists, for each kind, the name of the kind in errors and a command that creates the key k with that kind.
var holders = []struct{ name, call string }{
	{"CL.THROTTLE", "CL.THROTTLE k 4 1 600"},
	{"CL.WINDOW SLIDING", "CL.WINDOW k 4 600"},
	{"CL.WINDOW FIXED", "CL.WINDOW k 4 600 FIXED"},
	{"CL.WINDOW LOG", "CL.WINDOW k 4 600 LOG"},
	{"CL.WINDOW BUCKETS", "CL.WINDOW k 4 600 BUCKETS 2"},
	{"CL.BUCKET", "CL.BUCKET k 4 1 600"},
	{"CL.LEAKY", "CL.LEAKY k 4 1 600"},
}

// inUse returns the error reply for the key k, which the command with the given name has created. The argument where is
// the part of the error that names the limit of CL.ALL.
func inUse(where, name string) string {
	return "-WRONGTYPE " + where + "key 'k' is in use by " + name + ": use another key, or DEL this key to reset its limit\r\n"
}

// TestKeysInUse checks the error of each limiter command, alone and within CL.ALL, for a key that a different limiter
// command has created.
func TestKeysInUse(t *testing.T) {
	t.Parallel()
	s, _ := startFrozen(t, nil)
	p := s.dial()
	for _, holder := range holders {
		p.do("+OK\r\n", "FLUSHALL")
		p.ask(words(holder.call)...)
		for _, other := range holders {
			if other == holder {
				continue
			}
			spec := strings.TrimPrefix(other.call, "CL.")
			p.do(inUse("", holder.name), words(other.call)...)
			p.do(inUse("", holder.name), words("CL.ALL 0 "+spec)...)
			p.do(inUse("limit 1 of CL.ALL: ", holder.name), words("CL.ALL 1 "+spec+" THROTTLE a 4 1 600")...)
			p.do(inUse("limit 2 of CL.ALL: ", holder.name), words("CL.ALL 1 THROTTLE a 4 1 600 "+spec+" LEAKY b 4 1 600")...)
		}
		p.do(":1\r\n", "DBSIZE")
	}
}

// TestKeysTwice checks that the error for a repeated key names both limits.
func TestKeysTwice(t *testing.T) {
	t.Parallel()
	s, _ := startFrozen(t, nil)
	p := s.dial()
	f := func(first, second int, key string, specs string) {
		t.Helper()
		p.do(fmt.Sprintf("-ERR limits %d and %d of CL.ALL have the same key '%s': each limit needs a key of its own\r\n", first, second, key),
			words("CL.ALL 1 "+specs)...)
	}
	f(1, 2, "k", "THROTTLE k 4 1 60 THROTTLE k 4 1 60")
	f(1, 3, "k", "THROTTLE k 4 1 60 WINDOW w 4 60 BUCKET k 4 1 60")
	f(2, 3, "w", "THROTTLE k 4 1 60 WINDOW w 4 60 WINDOW w 4 60 LEAKY k 4 1 60")
	p.do(":0\r\n", "DBSIZE")
}

// TestUndecided checks which of the errors in a group becomes the error of the call.
func TestUndecided(t *testing.T) {
	reqs := make([]limiter.Request, 3)
	for i := range reqs {
		reqs[i].Key = []byte{"abc"[i]}
	}
	f := func(want error, errs ...error) {
		t.Helper()
		out := make([]limiter.Decision, len(errs))
		for i, err := range errs {
			out[i].Err = err
		}
		if got := (&call{}).outcome(reqs[:len(errs)], out, nil); !errors.Is(got, want) {
			t.Errorf("requests with the errors %v: the error of the call is %v, want %v", errs, got, want)
		}
	}
	group, memory, held := limiter.ErrGroup, limiter.ErrOutOfMemory, limiter.WrongKindError(limiter.WindowLog)
	f(memory, memory)
	f(memory, memory, memory, memory)
	f(memory, group, memory)
	f(memory, nil, group, memory)
	f(group, group, group)
	f(group, nil, group, nil)
	f(limiter.ErrSameKey, group, limiter.ErrSameKey) // the keys differ, so the error cannot name two limits
	f(errKeyInUse(0, 1, []byte("a"), limiter.WindowLog), held)
	f(errKeyInUse(1, 3, []byte("b"), limiter.WindowLog), group, held, group)
	f(errKeyInUse(0, 2, []byte("a"), limiter.WindowLog), fmt.Errorf("wrapped: %w", held), group)
}

// TestCommandOf checks that commandOf returns the command that creates keys of the given kind.
func TestCommandOf(t *testing.T) {
	for k := limiter.ScaledThrottle; k.Known(); k++ {
		if got := commandOf(k); got != "a rule" {
			t.Errorf("commandOf(%v %s) is %s, want a rule", k, k.Encoding(), got)
		}
	}
	for k := limiter.Throttle; k <= limiter.LeakyBucket; k++ {
		name, word, mode := commandOf(k), strings.ToUpper(k.String()), strings.ToUpper(k.Encoding())
		if name != "CL."+word && name != "CL."+word+" "+mode {
			t.Errorf("commandOf(%v %s) is %s, want the command that creates such keys", k, k.Encoding(), name)
		}
	}
	if got := commandOf(0); got != "none" {
		t.Errorf("commandOf(0) is %s, want none, because 0 is not a kind", got)
	}
}

// TestQuote checks that quoted arguments are printable ASCII and bounded.
func TestQuote(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := quote([]byte(text)); got != want {
			t.Errorf("%q is quoted as %s, want %s", text, got, want)
		}
	}
	f("", "''")
	f("user:1", "'user:1'")
	f("a\x00b\r\n\xff\x1f ~\x7f", `'a\x00b\x0d\x0a\xff\x1f ~\x7f'`)
	f(strings.Repeat("k", maxEcho), "'"+strings.Repeat("k", maxEcho)+"'")
	f(strings.Repeat("k", maxEcho)+"l", "'"+strings.Repeat("k", maxEcho)+"...'")
	f(strings.Repeat("\n", 1000), "'"+strings.Repeat(`\x0a`, maxEcho)+"...'")
	if got := echo([]byte("a\r\nb\xff\x00c"), 100); got != `a  b\xff` {
		t.Errorf("echo returns %s, want the bytes before the NUL, with spaces for CR and LF, and with the byte ff escaped", got)
	}
	if got := echo([]byte("abc\x00"), 2); got != "ab" {
		t.Errorf("echo returns %s, want ab, the first two bytes", got)
	}
}

// TestErrorsAreBounded checks that errors repeat only the beginning of long arguments, in one line.
func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	p := setup{engine: buckets.New(buckets.Config{Shards: 1})}.start(t).dial()
	for _, long := range []string{strings.Repeat("x", 400<<10), strings.Repeat("\r\n", 100<<10), strings.Repeat("\x00\xff", 100<<10)} {
		p.do(five(0, 2, 1, -1, 600), "CL.THROTTLE", long, "1", "1", "600")
		for _, call := range [][]string{
			{"CL.THROTTLE", "k", long, "1", "1"},
			{"CL.THROTTLE", "k", "1", long, "1"},
			{"CL.THROTTLE", "k", "1", "1", long},
			{"CL.THROTTLE", "k", "1", "1", "1", long},
			{"CL.WINDOW", "k", "1", "1", "FIXED", long},
			{"CL.WINDOW", "k", "1", "1", "m" + long},
			{"CL.WINDOW", "k", "1", "1", "BUCKETS", long},
			{"CL.WINDOW", long, "1", "1"},
			{"CL.ALL", long, "WINDOW", "k", "1", "1"},
			{"CL.ALL", "1", long, "k", "1", "1"},
			{"CL.ALL", "1", "THROTTLE", long, "1", "1"},
			{"CL.ALL", "1", "WINDOW", "k", "1", "1", "WINDOW", long, "1", "1"},
			{"CL.ALL", "1", "WINDOW", long, "1", "1", "LEAKY", long, "1", "1", "1"},
			{"CL.ALL", "1", "WINDOW", long, "x", "1", "1", "1"},
			{"CONFIG", "SET", long, "1"},
			{"CONFIG", "SET", "timeout", long},
			{"CONFIG", "SET", "bind", long},
			{long, "x"},
			{"CLIENT", long},
			{"HELLO", "3", long},
			{"CLIENT", "SETINFO", long, "x"},
		} {
			if got := p.ask(call...); got.kind != '-' || len(got.text) > 1500 || strings.ContainsAny(got.text, "\r\n\x00") {
				t.Errorf("%.40q: the reply has %d bytes, want an error of one line with at most 1500 bytes: %.300q", call, len(got.text), got.text)
			}
		}
		p.do(":1\r\n", "DEL", long)
	}
}

// TestErrorFigures checks that the texts of errors contain the current values of the limits.
func TestErrorFigures(t *testing.T) {
	for err, figure := range map[replyError]int{
		errManyLimits: limiter.MaxGroup, errManyChannels: maxSubscriptions, errChannelName: maxName,
	} {
		if !strings.Contains(string(err), fmt.Sprintf(" %d ", figure)) {
			t.Errorf("%q does not contain %d", err, figure)
		}
	}
}
