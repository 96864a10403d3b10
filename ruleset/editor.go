package ruleset

import "context"

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
// version. The base is as in Set. A patch that is applied while the rules are changed fails with ErrBase. If the
// context ends while the patch is applied, Patch changes nothing and returns the error of the context.
func (e *Editor) Patch(ctx context.Context, patch, author string, base *uint64) (Result, error) {
	newest, text, err := e.Text(0)
	if err != nil {
		return Result{}, err
	}
	compute(len(text)+len(patch), func() { text, err = Merge(text, patch) })
	if err != nil {
		return Result{}, err
	}
	if err := ended(ctx); err != nil {
		return Result{}, err
	}
	if base == nil {
		base = &newest.Number
	}
	return e.Log.Propose(ctx, Proposal{Name: nameOfPatched, Text: text, Author: author, Base: base})
}

// Rollback makes the text of an earlier version the next version. The errors are those of [Store.Text], [Store.Prepare]
// and the log.
func (e *Editor) Rollback(ctx context.Context, number uint64, author string) (Result, error) {
	newest := e.Newest().Number
	_, text, err := e.Text(number)
	if err != nil {
		return Result{}, err
	}
	return e.Log.Propose(ctx, Proposal{Name: nameOfText, Text: text, Author: author, Base: &newest})
}
