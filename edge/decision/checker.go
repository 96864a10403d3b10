package decision

import (
	"fmt"
	"sync"

	"github.com/throttledhq/throttled/acl"
)

// Runner runs commands in-process. A server.Caller is a Runner.
type Runner interface {
	// Run runs commands in the format of RESP, and appends their replies in the format of RESP3 to replies. After an
	// error, the Runner is not used again.
	Run(commands, replies []byte) ([]byte, error)
	// As sets the user whose permissions the following commands have.
	As(login acl.Login)
	Close()
}

// maxIdle is the maximum number of idle sessions that a Checker keeps.
const maxIdle = 256

// Checker runs requests. Its methods may be called concurrently.
type Checker struct {
	open func() Runner

	mu   sync.Mutex
	idle []*session
}

// New returns a Checker that gets its Runners from open.
func New(open func() Runner) *Checker { return &Checker{open: open} }

// Check runs one CL.CHECK for each request as a user, in one pipeline, and stores the replies in results, which must have the
// length of reqs. It reuses the slices in results.
func (c *Checker) Check(as acl.Login, reqs []Request, results []Result) error {
	s := c.take(as)
	for i := range reqs {
		s.appendCheck(&reqs[i])
	}
	return c.finish(s, s.run(results, (*session).parseCheck))
}

// Report runs one CL.REPORT as a user.
func (c *Checker) Report(as acl.Login, r *Report, result *Result) error {
	s := c.take(as)
	s.appendReport(r)
	results := [1]Result{*result}
	err := c.finish(s, s.run(results[:], (*session).parseCheck))
	*result = results[0]
	return err
}

// Limit runs commands as a user, whose replies are the five integers of a limit, such as CL.THROTTLE, in one pipeline. It
// stores the decisions in results, which must have the length of commands. The commands must not have the option MS.
func (c *Checker) Limit(as acl.Login, commands [][]string, results []Result) error {
	s := c.take(as)
	for _, args := range commands {
		s.appendLimit(args)
	}
	return c.finish(s, s.run(results, (*session).parseLimit))
}

// Close closes the idle Runners. It must be called after all other calls have returned.
func (c *Checker) Close() {
	for _, s := range c.idle {
		s.runner.Close()
	}
	c.idle = nil
}

// take returns a session for the commands of a user.
func (c *Checker) take(as acl.Login) *session {
	s := c.first()
	s.runner.As(as)
	return s
}

// first returns an idle session, or a new one.
func (c *Checker) first() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.idle)
	if n == 0 {
		return &session{runner: c.open(), texts: map[string]string{}}
	}
	s := c.idle[n-1]
	c.idle = c.idle[:n-1]
	return s
}

// finish keeps a session for later calls, or closes it after an error, and returns the error.
func (c *Checker) finish(s *session, err error) error {
	s.commands = s.commands[:0]
	if err == nil && c.keep(s) {
		return nil
	}
	s.runner.Close()
	if err != nil {
		return fmt.Errorf("decide: %w", err)
	}
	return nil
}

func (c *Checker) keep(s *session) bool {
	if cap(s.commands) > keepBytes || cap(s.replies) > keepBytes {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) == maxIdle {
		return false
	}
	c.idle = append(c.idle, s)
	return true
}
