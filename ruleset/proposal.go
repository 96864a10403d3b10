package ruleset

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/throttledhq/throttled/rules"
)

// Proposal is a set that shall become the next version.
type Proposal struct {
	Name   string `json:"name"` // name of the text in errors
	Text   string `json:"-"`
	Author string `json:"author"`
	// Base is the version on which the text is based. If it is not nil and is not the newest version, the proposal fails.
	Base *uint64 `json:"base,omitempty"`
	// OnlyNew makes the proposal have no effect if one of the newest 65,000 versions has its text, even if other versions
	// have followed.
	OnlyNew bool `json:"only_new,omitempty"`

	set *rules.Set // nil if Store.Compile was not called
}

// Result is the outcome of a proposal.
type Result struct {
	Version Version `json:"version"` // the new version, or the version that has the text; Number is 0 if it is no longer in the history
	Changed bool    `json:"changed"` // the version is new
	// Newest is the number of the newest version after the proposal. The store of a node that has sent the proposal to
	// the leader may not have this version yet.
	Newest uint64 `json:"newest,omitempty"`
}

// Log makes proposals versions, in one order.
type Log interface {
	// Propose validates a proposal as [Store.Prepare] does, and appends it to the log. When it returns a result, the
	// store of the node that has appended it has been changed. An error of the log states whether nothing was
	// changed, or whether the outcome is unknown.
	Propose(ctx context.Context, p Proposal) (Result, error)
}

// Prepared is a valid proposal.
type Prepared struct {
	Result
	Packed []byte // compressed text, for Activate
	set    *rules.Set
}

// Prepare validates a proposal and compiles its set, which is kept until the next call of Prepare or Activate. The
// proposals of a log must be prepared and activated one after another. now is the wall time.
//
// If the text is that of the newest version, or if the proposal has no effect because of OnlyNew, Changed of the result
// is false, and there is nothing to activate. The error is of type rules.Errors, or wraps ErrTooLarge or ErrBase, or
// the error of the context, if it ends while the text is compiled. Nothing is changed then.
func (s *Store) Prepare(ctx context.Context, p Proposal, now time.Time) (*Prepared, error) {
	if len(p.Text) > MaxText {
		return nil, ErrTooLarge
	}
	hash := HashOf(p.Text)
	if known, err := s.check(&p, hash); known != nil || err != nil {
		return known, err
	}
	n, err := compute(ctx, s, len(p.Text), func() (*Prepared, error) { return s.next(&p, hash, now) })
	if err != nil {
		return nil, err
	}
	n.Changed = true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepared = n
	return n, nil
}

// next compiles a proposal, and returns it as the version that follows the newest one. hash is that of its text.
func (s *Store) next(p *Proposal, hash string, now time.Time) (*Prepared, error) {
	set, err := p.setOrCompile(s)
	if err != nil {
		return nil, err
	}
	n := &Prepared{set: set, Packed: pack(p.Text)}
	n.Version = s.newVersion(p, hash, set.File(), now)
	n.Newest = n.Version.Number
	return n, nil
}

// newVersion returns the version that follows the newest one.
func (s *Store) newVersion(p *Proposal, hash string, file *rules.File, now time.Time) Version {
	before := s.newest()
	return Version{
		Number: before.Number + 1, Author: clip(p.Author, maxAuthor), Time: now.UTC().Truncate(time.Millisecond), Hash: hash, Size: len(p.Text),
		Limits: countLimits(file), Summary: summarize(before.file(s.Active()), file),
	}
}

// setOrCompile returns the set of a proposal. It compiles the text unless Store.Compile has done so.
func (p *Proposal) setOrCompile(s *Store) (*rules.Set, error) {
	if p.set != nil {
		return p.set, nil
	}
	return s.compile(p.Name, p.Text)
}

// check compares a proposal with the history. hash is that of its text. It returns a result if the proposal has no effect.
func (s *Store) check(p *Proposal, hash string) (*Prepared, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := s.history.newest()
	if p.Base != nil && *p.Base != newest.Number {
		return nil, fmt.Errorf("version %d is not the newest version, %d: %w", *p.Base, newest.Number, ErrBase)
	}
	known := s.history.withHash(hash)
	if known == nil && p.OnlyNew && s.older.has(hash) {
		return &Prepared{Result: Result{Version: Version{Hash: hash}, Newest: newest.Number}}, nil
	}
	if known != nil && (p.OnlyNew || known.Number == newest.Number) {
		return &Prepared{Result: Result{Version: known.Version, Newest: newest.Number}}, nil
	}
	return nil, nil
}

// file returns the file of a version. It returns an empty file if the version is not the active one.
func (r *record) file(a *Active) *rules.File {
	if a.Version != r.Number || a.Set == nil {
		return &rules.File{}
	}
	return a.Set.File()
}

// maxAuthor is the largest size of an author, in bytes.
const maxAuthor = 128

// clip returns text in at most size bytes of valid UTF-8.
func clip(text string, size int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}
