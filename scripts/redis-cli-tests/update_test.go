package rediscli

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the replies in corpus/ as the server gives them")

// silence is the time for which rewrite waits for another reply to a command.
const silence = 20 * time.Millisecond

// rewrite writes the replies of the servers to the scripts, whether they are correct or not. Verify
// them before a commit.
func rewrite(t testing.TB, scripts []*script, start func(t testing.TB, sec *section) place) {
	for _, s := range scripts {
		for _, sec := range s.sections {
			updateSection(t, s, sec, start(t, sec))
		}
		if err := os.WriteFile(s.path, []byte(strings.Join(s.lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("replies rewritten: review the difference, and commit verified replies only")
}

// updateSection rewrites the replies of a section in the lines of its script. Lines that match are
// kept, with their holes.
func updateSection(t testing.TB, s *script, sec *section, where place) {
	p := newPlayer(t, sec, where)
	for i, st := range sec.steps {
		switch st.kind {
		case reply:
			// updateReplies has rewritten this reply when the preceding command was sent.
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
				t.Fatalf("%v: run the step: %v", st, err)
			}
			if i+1 == len(sec.steps) || sec.steps[i+1].kind != st.kind || sec.steps[i+1].conn != st.conn {
				updateReplies(t, p, s, sec.steps[i:])
			}
		}
	}
}

// updateReplies rewrites the replies to the command at the start of steps, and to the commands in
// the same pipeline.
func updateReplies(t testing.TB, p *player, s *script, steps []*step) {
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
			t.Fatalf("%v: read the reply: %v", steps[0], err)
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
		t.Logf("%v: obsolete reply: remove it", old[0])
	}
}
