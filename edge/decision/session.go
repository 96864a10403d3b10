package decision

import (
	"math"
	"strconv"
	"time"

	"github.com/throttledhq/throttled/rules"
)

// keepBytes is the maximum size of the buffers of an idle session.
const keepBytes = 64 << 10

// session is a Runner with the buffers of its calls.
type session struct {
	runner   Runner
	commands []byte
	replies  []byte
	reply    reply             // parses replies
	texts    map[string]string // names and windows of earlier replies, so that most replies need no new strings
}

// maxTexts is the maximum number of texts of a session.
const maxTexts = 1024

// run runs the appended commands, and parses the reply to each of them.
func (s *session) run(results []Result, parse func(s *session, r *reply, result *Result) error) (err error) {
	if s.replies, err = s.runner.Run(s.commands, s.replies[:0]); err != nil {
		return err
	}
	s.reply = reply{rest: s.replies}
	r := &s.reply
	for i := range results {
		result := &results[i]
		*result = Result{Limits: result.Limits[:0]}
		if line, ok := r.error(); ok {
			result.Err = newError(line)
			continue
		}
		if err := parse(s, r, result); err != nil {
			return err
		}
	}
	if len(r.rest) > 0 {
		return errReply
	}
	return nil
}

func (s *session) appendCheck(r *Request) {
	n := 4 + len(r.Pairs) + 2*countTrue(!r.Peek && r.Cost != 1) + countTrue(r.Peek) + countTrue(r.DryRun)
	s.array(n)
	s.text("CL.CHECK")
	s.text(r.Domain)
	switch {
	case r.Peek:
		s.text("PEEK")
	case r.Cost != 1:
		s.text("COST")
		s.integer(r.Cost)
	}
	if r.DryRun {
		s.text("DRYRUN")
	}
	s.attributes(r.Pairs)
}

func (s *session) appendReport(r *Report) {
	s.array(8 + len(r.Pairs))
	s.text("CL.REPORT")
	s.text(r.Domain)
	s.text("OUTCOME")
	s.text(r.Outcome)
	s.text("COST")
	s.integer(r.Cost)
	s.attributes(r.Pairs)
}

// attributes appends the last options and the attributes. The word "--" permits attributes with the names of options.
func (s *session) attributes(pairs []string) {
	s.text("MS")
	s.text("--")
	for _, p := range pairs {
		s.text(p)
	}
}

func (s *session) appendLimit(args []string) {
	s.array(len(args) + 1)
	for _, a := range args {
		s.text(a)
	}
	s.text("MS")
}

func (s *session) array(n int) { s.head('*', n) }

func (s *session) text(t string) {
	s.head('$', len(t))
	s.commands = append(s.commands, t...)
	s.commands = append(s.commands, "\r\n"...)
}

func (s *session) integer(n int64) { s.text(strconv.FormatInt(n, 10)) }

func (s *session) head(kind byte, n int) {
	s.commands = append(s.commands, kind)
	s.commands = strconv.AppendInt(s.commands, int64(n), 10)
	s.commands = append(s.commands, "\r\n"...)
}

// parseLimit parses the five integers of a limiter command, and the attribute before them, which has the flags of a decision by
// the option upstream-away.
func (s *session) parseLimit(r *reply, result *Result) error {
	if r.next() == '|' {
		result.Flags = r.attribute()
	}
	n := r.size('*')
	if n < 5 {
		return errReply
	}
	d := &result.Decision
	d.Limited = r.integer() != 0
	d.Limit, d.Remaining = r.integer(), r.integer()
	d.RetryAfter, d.ResetAfter = r.millis(), r.millis()
	for range n - 5 { // CL.LEAKY adds the time by which the caller must delay the request
		r.integer()
	}
	return r.err
}

// parseCheck parses the map of CL.CHECK and CL.REPORT. Unknown keys are skipped, since the leader may have a later
// version of the program.
func (s *session) parseCheck(r *reply, result *Result) error {
	for range r.size('%') {
		switch key := r.text(); string(key) {
		case "name":
			result.Name = s.string(r.text())
		case "flags":
			result.Flags = r.flags()
		case "limits":
			for range r.size('*') {
				result.Limits = append(result.Limits, s.limit(r))
			}
		case "version":
			result.Version = uint64(r.integer())
		default:
			result.parse(r, key)
		}
		if r.err != nil {
			break
		}
	}
	return r.err
}

func (s *session) limit(r *reply) (l Limit) {
	for range r.size('%') {
		switch key := r.text(); string(key) {
		case "name":
			l.Name = s.string(r.text())
		case "window":
			l.Window = s.string(r.text())
			l.Period, _ = rules.WindowLength(l.Window)
		case "flags":
			l.Flags = r.flags()
		case "wait_ms":
			l.Wait = r.millis()
		default:
			l.parse(r, key)
		}
		if r.err != nil {
			break
		}
	}
	return l
}

// parse parses the value of one of the five integers, or skips the value of an unknown key.
func (d *Decision) parse(r *reply, key []byte) {
	switch string(key) {
	case "limited":
		d.Limited = r.integer() != 0
	case "limit":
		d.Limit = r.integer()
	case "remaining":
		d.Remaining = r.integer()
	case "retry_after":
		d.RetryAfter = r.millis()
	case "reset_after":
		d.ResetAfter = r.millis()
	default:
		r.skip()
	}
}

// string returns b as a string.
func (s *session) string(b []byte) string {
	if t, ok := s.texts[string(b)]; ok {
		return t
	}
	if len(s.texts) == maxTexts {
		clear(s.texts)
	}
	t := string(b)
	s.texts[t] = t
	return t
}

// millis returns an integer as a number of milliseconds.
func (r *reply) millis() time.Duration {
	n := r.integer()
	if n > math.MaxInt64/int64(time.Millisecond) {
		return math.MaxInt64
	}
	if n < 0 {
		return -1
	}
	return time.Duration(n) * time.Millisecond
}

func countTrue(b bool) int {
	if b {
		return 1
	}
	return 0
}
