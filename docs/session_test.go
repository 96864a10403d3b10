package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// session is the input of one server: a block of a document that shows a terminal, or a rules file and all such blocks
// after it in its section.
type session struct {
	file    string
	line    int      // number of its first line in the file
	section int      // number of the section if the session has a rules file; otherwise 0
	options []string // options of redis-cli for the prompts that follow
	steps   []step
}

// step is a command and its expected output, a time to wait, or a rules file that is saved.
type step struct {
	line    int
	options []string // options of redis-cli
	args    []string // arguments of redis-cli, or of the program
	program bool     // the command is the program itself
	grep    string   // text of the lines of the output that are shown; "" for all
	replyAt int      // number of the first line of the output
	want    []string
	wait    time.Duration
	rules   string // text of the rules file
	wrong   bool   // the rules file is not valid
	tests   string // text of the test file of the rules
}

const (
	shell   = "$ redis-cli -p 6380"
	program = "$ bin/throttled rules "
	prompt  = "127.0.0.1:6380> "

	// oneServer marks a document whose sections are one section for sessions.
	oneServer = "<!-- one server -->"
)

// block is a Markdown code block, fenced or indented by four spaces.
type block struct {
	line    int    // number of the first line in the file
	kind    string // text after the fence
	section int    // number of the heading before the block, from 1; if the text contains oneServer, at most 1
	lines   []string
}

// blocks returns the code blocks of a Markdown text.
func blocks(text string) (found []block) {
	fenced, open, kind, section := false, false, "", 0
	whole := strings.Contains(text, oneServer)
	for i, line := range strings.Split(text, "\n") {
		inside := fenced
		if info, isFence := strings.CutPrefix(line, "```"); isFence {
			fenced, inside, kind = !fenced, false, info
		} else if rest, indented := strings.CutPrefix(line, "    "); indented && !fenced {
			line, inside = rest, true
		} else if !fenced && strings.HasPrefix(line, "#") && (section == 0 || !whole) {
			section++
		}
		if inside && !open {
			found = append(found, block{line: i + 1, kind: kind, section: section})
		}
		if open = inside; open {
			last := &found[len(found)-1]
			last.lines = append(last.lines, line)
		}
	}
	return found
}

// sessions returns the sessions of a file: the blocks that begin with redis-cli. If a section has a rules file, the file and
// all blocks after it are one session.
func sessions(file, text string) (found []session, err error) {
	for _, b := range blocks(text) {
		s, err := parseBlock(file, b)
		if err != nil {
			return nil, err
		}
		if n := len(found); n > 0 && b.section > 0 && found[n-1].section == b.section {
			found[n-1].steps = append(found[n-1].steps, s.steps...)
		} else if len(s.steps) > 0 {
			found = append(found, s)
		}
	}
	return slices.DeleteFunc(found, func(s session) bool { return !s.hasCommand() }), nil
}

func (s *session) hasCommand() bool {
	return slices.ContainsFunc(s.steps, func(st step) bool { return st.args != nil })
}

// parseBlock returns the session of a block. It has no steps if nothing in the block can be played.
func parseBlock(file string, b block) (s session, err error) {
	s = session{file: file, line: b.line}
	text := strings.Join(b.lines, "\n") + "\n"
	switch b.kind {
	case "yaml", "yaml wrong":
		s.section, s.steps = b.section, []step{{line: b.line, rules: text, wrong: b.kind == "yaml wrong"}}
		return s, nil
	case "yaml test":
		s.section, s.steps = b.section, []step{{line: b.line, tests: text}}
		return s, nil
	}
	if !strings.HasPrefix(b.lines[0], shell) && !strings.HasPrefix(b.lines[0], program) {
		return s, nil
	}
	for i := 0; i < len(b.lines) && err == nil; i++ {
		line, at := b.lines[i], b.line+i
		for strings.HasSuffix(line, `\`) && i+1 < len(b.lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + b.lines[i]
		}
		err = s.add(at, b.line+i+1, line)
	}
	if err == nil {
		err = s.complete()
	}
	return s, err
}

// add adds one line of the block to the session. The parameter at is its number in the file, and next that of the line
// after it.
func (s *session) add(at, next int, line string) error {
	started, isShell := strings.CutPrefix(line, shell)
	started, grep, _ := strings.Cut(started, " | grep ")
	ran, isProgram := strings.CutPrefix(line, program)
	typed, isPrompt := strings.CutPrefix(line, prompt)
	wait, isWait := parseWait(line)
	switch {
	case isShell && !plain(started+grep), isProgram && !plain(ran), isPrompt && strings.ContainsAny(typed, "\"'"):
		return fmt.Errorf("%s:%d: only plain words can be played", s.file, at)
	case isShell:
		s.start(step{line: at, replyAt: next, grep: grep}, strings.Fields(started))
	case isProgram:
		s.steps = append(s.steps, step{line: at, replyAt: next, program: true, args: append([]string{"rules"}, strings.Fields(ran)...)})
	case isPrompt:
		s.steps = append(s.steps, step{line: at, replyAt: next, options: s.options, args: strings.Fields(typed)})
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

// plain reports whether a line is free of characters that are special to a shell.
func plain(line string) bool { return !strings.ContainsAny(line, "\"'`|<>$&;*?#") }

// start processes the words after redis-cli: options and, unless prompts follow, the command of step st.
func (s *session) start(st step, words []string) {
	n := 0
	for n < len(words) && strings.HasPrefix(words[n], "-") {
		n++
	}
	if n == len(words) {
		s.options = words
		return
	}
	st.options, st.args = words[:n], words[n:]
	s.steps = append(s.steps, st)
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
