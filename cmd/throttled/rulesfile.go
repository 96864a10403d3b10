package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/throttledhq/throttled/internal/fsutil"
	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/ruleset"
)

// Times of a rulesFile.
const (
	quietFor      = 100 * time.Millisecond // time without a change of the file after which it is read
	quietAtMost   = time.Second            // time after which the file is read even if it still changes
	proposeWithin = 40 * time.Second       // timeout of one attempt to make the file a version
	retryFirst    = 50 * time.Millisecond  // half of the pause after the first failed attempt; it doubles
	retryAtMost   = 5 * time.Second
	warnAfter     = 6 // attempts, the first 3 s
)

// rulesFile makes the content of the file in the option rules a version of the rules, at the start and after each change
// of the file.
//
// A text that is in the history has no effect. The file of a node thus cannot revert a rollback, or the newer file of
// another node. There is one exception: on a standalone server, each change of the file while the server is running
// takes effect.
type rulesFile struct {
	path   string
	author string
	alone  bool // this server is not part of a cluster
	store  *ruleset.Store
	target ruleset.Log
	log    *slog.Logger
	again  chan struct{} // requests that the file is read again
	// ready returns an error while this node may lack the newest version, which describe compares with that of the file.
	ready func() error

	hash    string            // of the last text; "" before the file was read
	state   ruleset.RulesFile // for INFO
	pending *ruleset.Proposal

	retry    *time.Timer // runs while an attempt must be repeated
	attempts int         // consecutive attempts that have failed
	waiting  bool        // the wait for a successful attempt was logged
}

func newRulesFile(path string, store *ruleset.Store, target ruleset.Log, log *slog.Logger) *rulesFile {
	return &rulesFile{
		path: path, author: "file " + path, alone: true, store: store, target: target, log: log,
		again: make(chan struct{}, 1), retry: newStoppedTimer(),
		ready: func() error { return nil },
	}
}

// reload requests that the file is read again.
func (f *rulesFile) reload() {
	select {
	case f.again <- struct{}{}:
	default:
	}
}

// load reads the file and makes it the first version. It is called before the server of a program without a log starts.
func (f *rulesFile) load(ctx context.Context) error {
	text, err := f.read()
	if err != nil {
		return err
	}
	f.hash = ruleset.HashOf(text)
	f.state.Hash = f.hash
	f.store.SetFile(f.state)
	r, err := f.target.Propose(ctx, ruleset.Proposal{Name: f.path, Text: text, Author: f.author})
	if err != nil {
		return fmt.Errorf("the rules are not valid\n%w", err)
	}
	f.log.Info("the rules file is active", "file", f.path, "version", r.Version.Number, "limits", r.Version.Limits)
	return nil
}

// read returns the text of the file. Its errors are those of fsutil.Open, and ruleset.ErrTooLarge.
func (f *rulesFile) read() (text string, err error) {
	file, err := fsutil.Open(f.path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // opened for reading only
	b, err := io.ReadAll(io.LimitReader(file, ruleset.MaxText+1))
	if err == nil && len(b) > ruleset.MaxText {
		err = fmt.Errorf("%s: %w", f.path, ruleset.ErrTooLarge)
	}
	return string(b), err
}

// run reads the file at the start, after each change and after each call of reload, until ctx is done.
func (f *rulesFile) run(ctx context.Context) {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	w := newFileWatch(f.path, poll.C, f.log)
	defer w.close()
	quiet := newStoppedTimer()
	changing := time.Time{} // time of the first change that was not read yet
	f.check()
	f.try(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed():
			if changing.IsZero() {
				changing = time.Now()
			}
			quiet.Reset(min(quietFor, max(0, quietAtMost-time.Since(changing))))
			continue
		case <-f.again:
			f.check()
		case <-quiet.C:
			changing = time.Time{}
			f.check()
		case <-f.retry.C:
		}
		f.try(ctx)
	}
}

// try makes an attempt, and starts the timer for the next one if it must be repeated.
func (f *rulesFile) try(ctx context.Context) {
	f.attempts++
	if f.attempt(ctx) {
		f.attempts = 0
		f.retry.Stop()
		return
	}
	f.retry.Reset(min(retryFirst<<min(f.attempts, 10), retryAtMost))
}

// newStoppedTimer returns a timer that is not running.
func newStoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// check reads the file. If its text has changed, check compiles the text and prepares the proposal for attempt. A text
// with a problem changes nothing, and nor does a file that was deleted before it became a version.
func (f *rulesFile) check() {
	text, err := f.read()
	if err != nil {
		f.pending, f.state.Hash = nil, ""
		f.report(fmt.Errorf("cannot read the rules file: %w", err))
		return
	}
	hash := ruleset.HashOf(text)
	if hash == f.hash && f.state.Problem == nil {
		return
	}
	changed := f.hash != "" && f.hash != hash
	f.state.Hash = hash
	f.hash = hash // also of a text with a problem: the text that follows it is a change, even if it is an earlier one
	p := ruleset.Proposal{Name: f.path, Text: text, Author: f.author, OnlyNew: !f.alone || !changed}
	if err := f.store.Compile(&p); err != nil { // reported even while there is no leader
		f.pending = nil
		f.report(err)
		return
	}
	f.report(nil)
	f.attempts, f.waiting = 0, false
	f.pending = &p
}

// report stores a problem of the file for INFO, and logs it unless it was the last one. A nil error means that the file has
// no problem.
func (f *rulesFile) report(err error) {
	last := f.state.Problem
	f.state.Problem = err
	f.store.SetFile(f.state)
	if err != nil && (last == nil || last.Error() != err.Error()) {
		f.log.Error("the rules file has no effect, and the active rules stay in use: correct the file", "file", f.path, "error", err)
	}
}

// attempt proposes the pending text. It returns false if the attempt must be repeated.
func (f *rulesFile) attempt(ctx context.Context) bool {
	p := f.pending
	if p == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, proposeWithin)
	defer cancel()
	r, err := f.propose(ctx, *p)
	var invalid rules.Errors
	switch {
	case errors.As(err, &invalid):
		f.pending = nil
		f.report(err)
		return true
	case err != nil:
		f.log.Debug("the rules file cannot be proposed yet", "file", f.path, "error", err)
		if f.attempts >= warnAfter {
			f.reportWait(err)
		}
		return false
	}
	f.pending = nil
	f.waiting = false
	f.store.SetFile(f.state)
	f.describe(r)
	return true
}

// propose proposes a text if this node is ready.
func (f *rulesFile) propose(ctx context.Context, p ruleset.Proposal) (ruleset.Result, error) {
	if err := f.ready(); err != nil {
		return ruleset.Result{}, err
	}
	return f.target.Propose(ctx, p)
}

// reportWait logs, once for each text, that the file cannot become a version yet, and stores the reason for INFO.
func (f *rulesFile) reportWait(err error) {
	f.store.SetFile(ruleset.RulesFile{Hash: f.state.Hash, Problem: fmt.Errorf("the file has no effect yet: %w", err)})
	if !f.waiting {
		f.waiting = true
		f.log.Warn("the rules file has no effect yet, and the server tries again", "file", f.path, "error", err)
	}
}

// describe logs the result of a proposal.
func (f *rulesFile) describe(r ruleset.Result) {
	newest := max(f.store.Newest().Number, r.Newest) // 0 in the answer of a leader whose program does not report it
	switch {
	case r.Changed:
		f.log.Info("the rules file is active", "file", f.path, "version", r.Version.Number, "limits", r.Version.Limits, "changes", r.Version.Summary)
	case r.Version.Number == 0:
		f.log.Warn("the rules file has the text of an earlier version, which is no longer in the history, and has no effect: to activate it, use CL.RULES SET",
			"file", f.path, "active_version", newest)
	case r.Version.Number < newest:
		f.log.Warn("the rules file has the text of an earlier version and has no effect: to activate it, use CL.RULES ROLLBACK with its version",
			"file", f.path, "version", r.Version.Number, "active_version", newest)
	default:
		f.log.Info("the rules file is active", "file", f.path, "version", r.Version.Number, "limits", r.Version.Limits)
	}
}
