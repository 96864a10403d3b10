package rediscli

import (
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/server"
)

// TestInProcess holds every conversation with a server of its own, whose clock only
// moves when the script says so.
func TestInProcess(t *testing.T) {
	eachSection(t, everySection, func(t *testing.T, sec *section) {
		play(t, sec, startInProcess(t, sec))
	})
}

func everySection(*section) bool { return true }

// startInProcess starts a server with the options of a section.
func startInProcess(t *testing.T, sec *section) place {
	t.Helper()
	opts, err := options.New(options.Default())
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range sec.config {
		if err := opts.Set([]options.Pair{{Name: pair[0], Value: pair[1]}}); err != nil {
			t.Fatal(err)
		}
	}
	now := new(atomic.Uint64)
	now.Store(uint64(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()))
	table := buckets.New(buckets.Config{Clock: now.Load})
	opts.OnChange(func(_, changed *options.Options) error {
		table.SetMaxMemory(changed.MaxMemory)
		return nil
	})
	srv := server.New(server.Config{
		Engine:  table,
		Options: opts,
		Version: "test",
		Stop:    func() {},
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	})
	return place{addr: ln.Addr().String(), advance: func(wait time.Duration) { now.Add(uint64(wait)) }}
}

var update = flag.Bool("update", false, "rewrite the replies in corpus/ as the server gives them")

// silence is how long TestUpdate waits for one more reply.
const silence = 100 * time.Millisecond

// TestUpdate rewrites the scripts when -update asks for it. What it writes is what the
// server says, be it right or wrong: commit only what you understand.
func TestUpdate(t *testing.T) {
	if !*update {
		return
	}
	for _, s := range corpus(t) {
		for _, sec := range s.sections {
			updateSection(t, s, sec)
		}
		if err := os.WriteFile(s.path, []byte(strings.Join(s.lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		s.lines = nil
	}
	t.Log("replies rewritten: read the difference, and commit only what you understand")
}

// updateSection rewrites the replies of a section in the lines of its script. Lines
// that match stay as they are, with the holes in them.
func updateSection(t *testing.T, s *script, sec *section) {
	p := newPlayer(t, sec, startInProcess(t, sec))
	for i, st := range sec.steps {
		switch st.kind {
		case reply:
			// Read behind the last command before it.
		case unasked:
			got, _, err := p.read(st, patience)
			if err != nil {
				got = err.Error()
			}
			if !p.vars.match(st.text, got) {
				s.lines[st.line-1] = st.conn + "< " + got
			}
		default:
			if err := p.do(st); err != nil {
				t.Fatalf("%v: %v", st, err)
			}
			if i+1 == len(sec.steps) || sec.steps[i+1].kind != st.kind || sec.steps[i+1].conn != st.conn {
				updateReplies(t, p, s, sec.steps[i:])
			}
		}
	}
}

// updateReplies rewrites the replies to the command that steps begin with, and to those
// that were sent together with it.
func updateReplies(t *testing.T, p *player, s *script, steps []*step) {
	last := steps[0].line - 1
	if steps[0].kind == clock {
		return
	}
	old := steps[1:]
	for {
		got, _, err := p.read(steps[0], silence)
		if errors.Is(err, errSilent) {
			break
		} else if err != nil {
			t.Fatalf("%v: %v", steps[0], err)
		}
		if len(old) > 0 && old[0].kind == reply {
			last = old[0].line - 1
			if !p.vars.match(old[0].text, got) {
				s.lines[last] = got
			}
			old = old[1:]
		} else {
			s.lines[last] += "\n" + got
		}
		if got == closed {
			break
		}
	}
	for ; len(old) > 0 && old[0].kind == reply; old = old[1:] {
		t.Logf("%v: no such reply any more: remove it", old[0])
	}
}
