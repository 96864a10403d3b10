package rediscli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// script is a file of the corpus.
type script struct {
	path     string
	lines    []string
	sections []*section
}

// section is a sequence of commands and replies that starts with an empty server.
type section struct {
	title  string
	resp3  bool
	redis  bool        // also applies to Redis
	notCLI bool        // redis-cli cannot run the section
	config [][2]string // options that are set before the steps
	rules  string      // name of the rules file in corpus/rules; "" for none
	steps  []*step
}

type kind int

const (
	send    kind = iota // a command as words
	raw                 // bytes as quoted words
	reply               // a reply on the connection of the latest command
	unasked             // a message that is not a reply to the latest command
	clock               // the clock advances
)

type step struct {
	kind kind
	file string
	line int
	conn string // the name of the connection; "" for the default one
	text string
	// The command or the reply for a real Redis, if it differs.
	redis string
	wait  time.Duration // of a clock step
}

func (st *step) String() string { return fmt.Sprintf("%s:%d: %s", st.file, st.line, st.text) }

// isReply reports whether the step is a message from the server.
func (st *step) isReply() bool { return st.kind == reply || st.kind == unasked }

// forRedis returns the command or reply for a real Redis if redis is true, and otherwise
// the one for this server.
func (st *step) forRedis(redis bool) string {
	if redis && st.redis != "" {
		return st.redis
	}
	return st.text
}

// closed is the text of a reply step that expects the connection to be closed.
const closed = "closed"

// markedLine matches a line that begins with the name of a connection, which may be empty, and one
// of the marks >, ! and <.
var markedLine = regexp.MustCompile(`^(\w*)([>!<]) (.*)$`)

// parse parses a script.
func parse(path, text string) (*script, error) {
	s := &script{path: path, lines: strings.Split(text, "\n")}
	for i, line := range s.lines {
		if err := s.add(i+1, line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	return s, nil
}

func (s *script) add(number int, line string) error {
	if title, ok := strings.CutPrefix(line, "== "); ok {
		s.sections = append(s.sections, &section{title: title})
		return nil
	}
	if line == "" || line == "#" || strings.HasPrefix(line, "# ") {
		return nil
	}
	if len(s.sections) == 0 {
		return fmt.Errorf("line before the first section: %s", line)
	}
	sec := s.sections[len(s.sections)-1]
	if directive, ok := strings.CutPrefix(line, "% "); ok {
		return sec.applyDirective(directive)
	}
	return sec.addLine(&step{file: filepath.Base(s.path), line: number}, line)
}

// applyDirective sets a field of the section according to a directive.
func (sec *section) applyDirective(directive string) error {
	words := strings.Fields(directive)
	switch {
	case len(sec.steps) > 0:
		return fmt.Errorf("directive after a step: %s", directive)
	case directive == "resp3":
		sec.resp3 = true
	case directive == "redis":
		sec.redis = true
	case strings.HasPrefix(directive, "not redis-cli: "):
		sec.notCLI = true
	case words[0] == "rules" && len(words) == 2:
		sec.rules, sec.notCLI = words[1], true // the program that redis-cli connects to has no rules
	case words[0] == "config" && len(words) == 3:
		sec.config = append(sec.config, [2]string{words[1], words[2]})
	default:
		return fmt.Errorf("unknown directive: %s", directive)
	}
	return nil
}

// addLine parses a line and adds a step. If the line is for a real Redis only, addLine adds the
// line to the last step instead.
func (sec *section) addLine(st *step, line string) error {
	var last *step
	if n := len(sec.steps); n > 0 {
		last = sec.steps[n-1]
	}
	m := markedLine.FindStringSubmatch(line)
	instead, answersElse := strings.CutPrefix(line, "redis: ")
	switch {
	case m != nil && m[1] == "redis" || answersElse:
		if m != nil {
			instead = m[3]
		}
		if last == nil || !sec.redis || answersElse != last.isReply() || m != nil && last.kind != send {
			return fmt.Errorf("unexpected line for Redis: %s", line)
		}
		last.redis = instead
		return nil
	case m != nil:
		st.kind = map[string]kind{">": send, "!": raw, "<": unasked}[m[2]]
		st.conn, st.text = m[1], m[3]
	case strings.HasPrefix(line, "@ "):
		wait, err := time.ParseDuration(strings.TrimPrefix(line, "@ "))
		if err != nil {
			return fmt.Errorf("parse a duration: %w", err)
		}
		st.kind, st.wait = clock, wait
	case last == nil:
		return fmt.Errorf("reply without a command: %s", line)
	default:
		st.kind, st.conn, st.text = reply, last.conn, line
	}
	sec.steps = append(sec.steps, st)
	return nil
}

// uses reports whether the section has a step of one of the kinds.
func (sec *section) uses(kinds ...kind) bool {
	for _, st := range sec.steps {
		for _, k := range kinds {
			if st.kind == k {
				return true
			}
		}
	}
	return false
}

// runsInCLI reports whether redis-cli can run the section: redis-cli cannot send arbitrary bytes,
// does not print unsolicited messages, and reconnects automatically. In the tests, it is connected to
// servers whose clock cannot be controlled.
func (sec *section) runsInCLI() bool {
	for _, st := range sec.steps {
		if st.kind == reply && st.text == closed {
			return false
		}
	}
	return !sec.notCLI && !sec.uses(raw, unasked, clock)
}

// corpus returns the scripts for a standalone server.
func corpus(t testing.TB) []*script {
	t.Helper()
	return scriptsIn(t, "corpus")
}

func scriptsIn(t testing.TB, dir string) []*script {
	t.Helper()
	paths, err := filepath.Glob(dir + "/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts in %s (%v)", dir, err)
	}
	var scripts []*script
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parse(path, string(text))
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, s)
	}
	return scripts
}

// eachSection runs a test for every selected section. It returns the number of commands in
// all sections, and in the selected ones.
func eachSection(t *testing.T, pick func(*section) bool, test func(t *testing.T, sec *section)) (all, picked int) {
	return eachSectionOf(t, corpus(t), pick, test)
}

func eachSectionOf(t *testing.T, scripts []*script, pick func(*section) bool, test func(t *testing.T, sec *section)) (all, picked int) {
	for _, s := range scripts {
		name := strings.TrimSuffix(filepath.Base(s.path), ".txt")
		for _, sec := range s.sections {
			all += sec.commands()
			if pick(sec) {
				picked += sec.commands()
				t.Run(name+"/"+sec.title, func(t *testing.T) { test(t, sec) })
			}
		}
	}
	return all, picked
}

func (sec *section) commands() (n int) {
	for _, st := range sec.steps {
		if st.kind == send || st.kind == raw {
			n++
		}
	}
	return n
}
