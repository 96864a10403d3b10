package ruleset

import (
	"context"
	"errors"

	"github.com/throttledhq/throttled/rules"
)

// Editor changes the rules of a store through a log. Its methods may be called concurrently.
type Editor struct {
	*Store
	Log Log
}

// names of texts in errors.
const (
	nameOfText    = "rules"
	nameOfPatched = "patched rules"
)

// Set makes a text the next version. The author is clipped to 128 bytes. If base is not nil, it must be the number of
// the newest version. The errors are those of [Store.Prepare] and of the log.
func (e *Editor) Set(ctx context.Context, text, author string, base *uint64) (Result, error) {
	return e.Log.Propose(ctx, Proposal{Name: nameOfText, Text: text, Author: author, Base: base})
}

// Patch applies a patch to the text of the newest version, as described at [Merge], and makes the result the next
// version. The base is as in Set. Without a base, Patch begins again if the rules are changed meanwhile. If the context ends
// before the patched text is proposed, Patch changes nothing and returns the error of the context.
func (e *Editor) Patch(ctx context.Context, patch, author string, base *uint64) (Result, error) {
	for {
		r, err := e.patchNewest(ctx, patch, author, base)
		if base != nil || !errors.Is(err, ErrBase) {
			return r, err
		}
	}
}

// patchNewest is like Patch, but fails with ErrBase if the rules are changed meanwhile.
func (e *Editor) patchNewest(ctx context.Context, patch, author string, base *uint64) (Result, error) {
	newest, text, err := e.Text(0)
	if err != nil {
		return Result{}, err
	}
	patched, err := compute(ctx, e.Store, len(text)+len(patch), func() (string, error) { return Merge(text, patch) })
	if err != nil {
		return Result{}, err
	}
	if err := ended(ctx); err != nil {
		return Result{}, err
	}
	if base == nil {
		base = &newest.Number
	}
	result, err := e.Log.Propose(ctx, Proposal{Name: nameOfPatched, Text: patched, Author: author, Base: base})
	if invalid := (rules.Errors)(nil); !errors.As(err, &invalid) {
		return result, err
	}
	return compute(ctx, e.Store, len(text)+len(patch), func() (Result, error) { return Result{}, locate(err, text, patch) })
}

// Rollback makes the text of an earlier version the next version, whichever version is the newest one. The errors are those
// of [Store.Text], [Store.Prepare] and the log.
func (e *Editor) Rollback(ctx context.Context, number uint64, author string) (Result, error) {
	_, text, err := e.Text(number)
	if err != nil {
		return Result{}, err
	}
	return e.Log.Propose(ctx, Proposal{Name: nameOfText, Text: text, Author: author})
}
