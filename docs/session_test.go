package docs

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// session is a block of a document that shows redis-cli in a terminal.
type session struct {
	file    string
	line    int      // number of its first line in the file
	options []string // options of redis-cli for the prompts that follow
	steps   []step
}

// step is a command and the expected output of redis-cli, or a time to wait.
type step struct {
	line    int
	options []string // options of redis-cli
	args    []string
	want    []string
	wait    time.Duration
}

const (
	shell  = "$ redis-cli -p 6380"
	prompt = "127.0.0.1:6380> "
)

// block is a Markdown code block, fenced or indented by four spaces.
type block struct {
	line  int // number of the first line in the file
	lines []string
}

// blocks returns the code blocks of a Markdown text.
func blocks(text string) (found []block) {
	fenced, open := false, false
	for i, line := range strings.Split(text, "\n") {
		inside := fenced
		if strings.HasPrefix(line, "```") {
			fenced, inside = !fenced, false
		} else if rest, indented := strings.CutPrefix(line, "    "); indented && !fenced {
			line, inside = rest, true
		}
		if inside && !open {
			found = append(found, block{line: i + 1})
		}
		if open = inside; open {
			last := &found[len(found)-1]
			last.lines = append(last.lines, line)
		}
	}
	return found
}

// sessions returns the sessions of a file: the blocks that begin with redis-cli.
func sessions(file, text string) (found []session, err error) {
	for _, b := range blocks(text) {
		if !strings.HasPrefix(b.lines[0], shell) {
			continue
		}
		s := session{file: file, line: b.line}
		for i := 0; i < len(b.lines) && err == nil; i++ {
			line, at := b.lines[i], b.line+i
			for strings.HasSuffix(line, `\`) && i+1 < len(b.lines) {
				i++
				line = strings.TrimSuffix(line, `\`) + b.lines[i]
			}
			err = s.add(at, line)
		}
		if err == nil {
			err = s.complete()
		}
		if err != nil {
			return nil, err
		}
		found = append(found, s)
	}
	return found, nil
}

// add adds one line of the block to the session. The parameter at is its number in the file.
func (s *session) add(at int, line string) error {
	started, isShell := strings.CutPrefix(line, shell)
	typed, isPrompt := strings.CutPrefix(line, prompt)
	wait, isWait := parseWait(line)
	switch {
	case isShell && !plain(started), isPrompt && !plain(typed):
		return fmt.Errorf("%s:%d: only plain words can be played", s.file, at)
	case isShell:
		s.start(at, strings.Fields(started))
	case isPrompt:
		s.steps = append(s.steps, step{line: at, options: s.options, args: strings.Fields(typed)})
	case isWait:
		s.steps = append(s.steps, step{line: at, wait: wait})
	case len(s.steps) == 0 || s.steps[len(s.steps)-1].args == nil || strings.HasPrefix(line, "$"):
		return fmt.Errorf("%s:%d: no command of redis-cli shows %q", s.file, at, line)
	default:
		last := &s.steps[len(s.steps)-1]
		last.want = append(last.want, withoutRemark(line))
	}
	return nil
}

// plain reports whether a line is free of characters that are special to a shell or to
// redis-cli.
func plain(line string) bool { return !strings.ContainsAny(line, "\"'`|<>$&;*?#") }

// start processes the words after redis-cli: options and, unless prompts follow, a command.
func (s *session) start(at int, words []string) {
	n := 0
	for n < len(words) && strings.HasPrefix(words[n], "-") {
		n++
	}
	options, args := words[:n], words[n:]
	if len(args) == 0 {
		s.options = options
		return
	}
	s.steps = append(s.steps, step{line: at, options: options, args: args})
}

// complete returns an error if a command has no reply.
func (s *session) complete() error {
	for _, st := range s.steps {
		if st.args != nil && st.want == nil {
			return fmt.Errorf("%s:%d: the reply is missing", s.file, st.line)
		}
	}
	return nil
}

var (
	later  = regexp.MustCompile(`^\((\d+) (millisecond|second|minute|hour|day)s? later\)$`)
	remark = regexp.MustCompile(`^( *\S.*?) {2,}\S.*$`)
	units  = map[string]time.Duration{
		"millisecond": time.Millisecond, "second": time.Second, "minute": time.Minute,
		"hour": time.Hour, "day": 24 * time.Hour,
	}
)

// parseWait parses a line such as "(10 seconds later)".
func parseWait(line string) (time.Duration, bool) {
	m := later.FindStringSubmatch(line)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return time.Duration(n) * units[m[2]], err == nil
}

// withoutRemark removes a remark, which is separated from a line of a reply by two or more
// spaces.
func withoutRemark(line string) string { return remark.ReplaceAllString(line, "$1") }

// differ compares the output of redis-cli with the reply in the document. It returns a
// description of the first difference, or "" if there is none.
func differ(want []string, shown string) string {
	got := strings.Split(strings.TrimRight(shown, "\n"), "\n")
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("line %d of the reply is missing: %s", i+1, want[i])
		case i >= len(want):
			return fmt.Sprintf("the document lacks line %d of the reply: %s", i+1, got[i])
		case want[i] != got[i]:
			return fmt.Sprintf("line %d of the reply is %q, and %q in the document", i+1, got[i], want[i])
		}
	}
	return ""
}
