package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/ruletest"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/ruleset"
	"github.com/throttledhq/throttled/server"
)

// errTestsFailed is returned if a case of a test file fails.
var errTestsFailed = errors.New("a test of the rules failed")

// testRules runs test files. Each file is run, even if another one fails.
func testRules(ctx context.Context, names []string, stdout io.Writer) error {
	var errs []error
	for _, name := range names {
		passed, err := runTestFile(ctx, name, stdout)
		switch {
		case err != nil:
			errs = append(errs, err)
		case !passed && !slices.Contains(errs, errTestsFailed):
			errs = append(errs, errTestsFailed)
		}
	}
	return errors.Join(errs...)
}

// runTestFile runs the cases of a test file, and reports whether all of them passed.
func runTestFile(ctx context.Context, name string, stdout io.Writer) (passed bool, err error) {
	text, err := os.ReadFile(name) // #nosec G304 G703 -- the operator chooses the path
	if err != nil {
		return false, err
	}
	tests, err := rules.ParseTests(name, text)
	if err != nil {
		return false, fmt.Errorf("the tests are not valid\n%w", err)
	}
	path := tests.Rules
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(name), path)
	}
	file, err := readRules(path)
	var unread *fs.PathError
	switch {
	case errors.As(err, &unread):
		return false, fmt.Errorf("%s:%d: rules: the rules file cannot be read, write its name relative to the directory of this file: %w", name, tests.RulesLine, err)
	case err != nil:
		return false, err
	}
	domain := tests.Domain
	if domain == "" && len(file.Domains) > 1 {
		return false, fmt.Errorf("%s: the rules have several domains: add domain: %s", name, file.Domains[0].Name)
	}
	if domain == "" {
		domain = file.Domains[0].Name
	}
	lab := &ruleLab{ctx: ctx, store: ruleset.NewStore()}
	defer lab.stop()
	if err := lab.load(path); err != nil {
		return false, err
	}
	return ruletest.Run(name, domain, tests, lab, stdout)
}

// ruleLab is a server whose time the tests set. It decides with the code of every server: requests are CL.CHECK commands
// over a connection on the loopback interface. Each case has a server of its own, which has no keys.
type ruleLab struct {
	ctx      context.Context
	store    *ruleset.Store
	now      atomic.Int64 // nanoseconds since 1970
	client   *redis.Client
	shutdown func()
}

// load makes a rules file the active rules.
func (l *ruleLab) load(path string) error {
	text, err := os.ReadFile(path) // #nosec G304 G703 -- the operator chooses the path
	if err != nil {
		return err
	}
	_, err = ruleset.NewLocal(l.store, time.Now).Propose(l.ctx, ruleset.Proposal{Name: path, Text: string(text)})
	return err
}

// Begin implements ruletest.Server.
func (l *ruleLab) Begin(start time.Time) error {
	l.stop()
	l.now.Store(start.UnixNano())
	opts, err := options.New(options.Default())
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("the tests need the loopback interface: %w", err)
	}
	s := server.New(server.Config{
		Engine:     buckets.New(buckets.Config{Clock: func() uint64 { return uint64(l.now.Load()) }}),
		Options:    opts,
		Rules:      l.store,
		RulesClock: func() time.Time { return time.Unix(0, l.now.Load()).UTC() },
		Version:    version,
	})
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	l.client = redis.NewClient(&redis.Options{Addr: listener.Addr().String(), Protocol: 2, DisableIdentity: true, MaxRetries: -1})
	l.shutdown = func() {
		_ = l.client.Close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), 10*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		<-served
	}
	return nil
}

// stop stops the server of the last case, if there is one.
func (l *ruleLab) stop() {
	if l.shutdown != nil {
		l.shutdown()
		l.shutdown = nil
	}
}

// Advance implements ruletest.Server.
func (l *ruleLab) Advance(now time.Time) error {
	l.now.Store(now.UnixNano())
	return nil
}

// Check implements ruletest.Server.
func (l *ruleLab) Check(domain string, s *rules.TestStep) (ruletest.Decision, error) {
	args := []any{"CL.CHECK", domain, "MS"}
	if s.Peek {
		args = append(args, "PEEK")
	}
	return l.ask(append(args, "COST", s.Cost), s.Check)
}

// Report implements ruletest.Server.
func (l *ruleLab) Report(domain string, s *rules.TestStep) (ruletest.Decision, error) {
	return l.ask([]any{"CL.REPORT", domain, "MS", "OUTCOME", fmt.Sprintf("status=%d", s.Status), "COST", s.Cost}, s.Report)
}

// ask sends a command with the attributes of a request, and returns the decision in its reply.
func (l *ruleLab) ask(args []any, request rules.Attributes) (ruletest.Decision, error) {
	args = append(args, "--")
	for _, name := range slices.Sorted(maps.Keys(request)) {
		args = append(args, name, request[name])
	}
	reply, err := l.client.Do(l.ctx, args...).Slice()
	if err != nil {
		return ruletest.Decision{}, errors.New(strings.TrimPrefix(err.Error(), "ERR "))
	}
	return parseCheckReply(reply)
}

// errReply is returned for a reply that is not one of CL.CHECK.
var errReply = errors.New("unexpected reply to CL.CHECK or CL.REPORT")

// parseCheckReply returns the decision in a reply to CL.CHECK or CL.REPORT with times in milliseconds.
func parseCheckReply(reply []any) (d ruletest.Decision, err error) {
	if len(reply) < 9 {
		return d, errReply
	}
	var five [5]int64
	for i := range five {
		n, ok := reply[i].(int64)
		if !ok {
			return d, errReply
		}
		five[i] = n
	}
	d = ruletest.Decision{Limited: five[0] == 1, Limit: five[1], Remaining: five[2], RetryAfter: -1, ResetAfter: time.Duration(five[4]) * time.Millisecond}
	if five[3] >= 0 {
		d.RetryAfter = time.Duration(five[3]) * time.Millisecond
	}
	d.By, _ = reply[5].(string)
	flags, _ := reply[6].([]any)
	for _, flag := range flags {
		d.Flags = append(d.Flags, fmt.Sprint(flag))
	}
	limits, _ := reply[7].([]any)
	for _, one := range limits {
		if parts, ok := one.([]any); ok && len(parts) > 0 && !slices.Contains(d.Limits, fmt.Sprint(parts[0])) {
			d.Limits = append(d.Limits, fmt.Sprint(parts[0]))
		}
	}
	return d, nil
}
