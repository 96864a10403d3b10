package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/throttledhq/throttled/lessee"
	"github.com/throttledhq/throttled/ruleset"
)

// Rules keeps the rules of a sidecar equal to the newest version of its upstream, so that it can decide CL.CHECK with leased
// units, and while the upstream does not answer. Run must be called once.
type Rules struct {
	Commands *Commands
	Store    *ruleset.Store
	Log      *slog.Logger

	failed string // the last error, which is logged once
}

const (
	rulesInterval = time.Second // between requests for the newest version
	// refusedInterval replaces rulesInterval if the user may not ask: the upstream counts and records refused commands.
	refusedInterval = 30 * time.Second
	rulesTimeout    = 30 * time.Second // for the text, which may be large
	// rulesAge is the time for which the sidecar decides by rules after it has asked whether they are the newest.
	rulesAge = 2 * time.Second
)

// Run follows the versions of the upstream until ctx is done.
func (r *Rules) Run(ctx context.Context) {
	for wait := time.Duration(0); sleep(ctx, wait); {
		if view := r.Commands.Upstream.View(); view.Leader == "" {
			select {
			case <-view.Changed:
			case <-ctx.Done():
				return
			}
			wait = 0 // until the rules are confirmed, each CL.CHECK is forwarded
			continue
		}
		err := r.follow(ctx)
		r.report(err)
		wait = jittered(intervalAfter(err))
	}
}

// intervalAfter returns the time until the next question after one with this result.
func intervalAfter(err error) time.Duration {
	if refused := replyError(""); errors.As(err, &refused) && strings.HasPrefix(string(refused), "NOPERM ") {
		return refusedInterval
	}
	return rulesInterval
}

// report logs an error that differs from the last one.
func (r *Rules) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != r.failed && !errors.Is(err, context.Canceled) {
		r.Log.Warn("cannot follow the rules of the upstream: CL.CHECK is forwarded, or decided by upstream-away", "user", r.Commands.Upstream.User(), "error", err)
	}
	r.failed = text
}

// follow makes the newest version of the upstream active, and confirms it.
func (r *Rules) follow(ctx context.Context) error {
	asked := lessee.Now()
	newest, err := r.newest(ctx)
	if err != nil || newest.Number == 0 {
		return err
	}
	if r.Store.Newest().Hash != newest.Hash {
		if err := r.adopt(ctx, newest); err != nil {
			return err
		}
	}
	r.Commands.Upstream.confirmed.Store(asked)
	return nil
}

// adopt requests the text of the newest version, and makes it active.
func (r *Rules) adopt(ctx context.Context, newest ruleset.Version) error {
	reply, err := r.ask(ctx, "CL.RULES", "GET", fmt.Sprint(newest.Number))
	if err != nil {
		return err
	}
	text, ok := reply.(string)
	if !ok || ruleset.HashOf(text) != newest.Hash {
		return fmt.Errorf("%w: the text of version %d differs from its hash", errFormat, newest.Number)
	}
	p, err := r.Store.Prepare(ctx, ruleset.Proposal{Name: "the rules of the upstream", Text: text, Author: newest.Author}, time.Now())
	if err != nil {
		return err
	}
	p.Version.Number = newest.Number
	r.Store.Adopt(p.Version, p.Packed)
	r.Log.Info("the rules of the upstream are active", "version", newest.Number)
	return nil
}

// newest returns number, author and hash of the newest version of the upstream. The number is 0 if it has no rules.
func (r *Rules) newest(ctx context.Context) (v ruleset.Version, err error) {
	reply, err := r.ask(ctx, "CL.RULES", "HISTORY", "1")
	list, ok := reply.([]any)
	if err != nil || ok && len(list) == 0 {
		return v, err
	}
	if !ok {
		return v, errFormat
	}
	fields, _ := list[0].([]any)
	for i := 0; i+1 < len(fields); i += 2 {
		switch fields[i] {
		case "version":
			n, _ := fields[i+1].(int64)
			v.Number = uint64(max(0, n))
		case "author":
			v.Author, _ = fields[i+1].(string)
		case "hash":
			v.Hash, _ = fields[i+1].(string)
		}
	}
	if v.Number == 0 || v.Hash == "" {
		return v, errFormat
	}
	return v, nil
}

// ask sends a command, and returns its reply unless it is an error.
func (r *Rules) ask(ctx context.Context, words ...string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, rulesTimeout)
	defer cancel()
	replies, err := r.Commands.Do(ctx, [][]string{words})
	if err != nil {
		return nil, err
	}
	if refused, ok := replies[0].(replyError); ok {
		return nil, refused
	}
	return replies[0], nil
}
