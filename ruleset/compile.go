package ruleset

import (
	"context"
	"time"

	"github.com/throttledhq/throttled/internal/background"
	"github.com/throttledhq/throttled/rules"
)

// parseAndCompile parses and compiles a text. The name is used in errors. If the text is not a valid file, the error is of type
// rules.Errors, or names a limit that cannot be compiled.
func parseAndCompile(name, text string) (*rules.Set, error) {
	file, err := rules.Parse(name, []byte(text), time.LoadLocation)
	if err != nil {
		return nil, err
	}
	return rules.Compile(file)
}

// Estimates of memory, in bytes for each byte of a text. They are upper bounds for files of many short limits, which need
// about 12 and 75.
const (
	memoryOfSet     = 16 // a compiled set
	memoryOfCompile = 96 // a set while it is parsed and compiled, with garbage
)

// Memory returns an estimate of the memory that the active set uses, and of the memory for the sets that are being
// compiled, in bytes.
func (s *Store) Memory() (active, compiling int64) {
	return memoryOfSet * int64(s.Newest().Size), memoryOfCompile * s.inCompile.Load()
}

// Compile compiles the text of a proposal, and does not change the store. The proposal keeps the set for Prepare, which
// would otherwise compile the text again. The name and the text must not be changed afterwards. A text that has no effect
// because it is in the history is not compiled. If the text is not a valid file, the error is of type rules.Errors, or
// names a limit that cannot be compiled.
func (s *Store) Compile(p *Proposal) error {
	if known, _ := s.check(p, HashOf(p.Text)); known != nil {
		return nil
	}
	set, err := s.compileInBackground(p.Name, p.Text)
	if err != nil {
		return err
	}
	p.set = set
	return nil
}

// compile is like parseAndCompile. Meanwhile, Memory includes the memory for it.
func (s *Store) compile(name, text string) (*rules.Set, error) {
	s.inCompile.Add(int64(len(text)))
	defer s.inCompile.Add(-int64(len(text)))
	return parseAndCompile(name, text)
}

// compileInBackground is like compile, but does not delay other goroutines.
func (s *Store) compileInBackground(name, text string) (set *rules.Set, err error) {
	if len(text) < largeText {
		return s.compile(name, text)
	}
	background.Run(func() { set, err = s.compile(name, text) })
	return set, err
}

// largeText is the size from which a text is compiled or patched in the background, in bytes. It takes about 20 ms.
const largeText = 64 << 10

// compute calls f, which takes a time in proportion to the size of a text, and returns its results. If the context ends
// earlier, compute returns an error, and drops the results of f later. Until then, the next call with a large text waits, so
// that changes that are repeated after their timeouts do not use more and more memory.
func compute[T any](ctx context.Context, s *Store, size int, f func() (T, error)) (none T, err error) {
	if size < largeText {
		return f()
	}
	select {
	case s.computing <- struct{}{}:
	case <-ctx.Done():
		return none, ended(ctx)
	}
	var result T
	var failed error // of f
	done := background.Start(func() {
		defer func() { <-s.computing }()
		result, failed = f()
	})
	select {
	case failure := <-done:
		if failure != nil {
			panic(failure)
		}
		return result, failed
	case <-ctx.Done():
		return none, ended(ctx)
	}
}

// countLimits returns the number of limits in all domains.
func countLimits(file *rules.File) (n int) {
	for i := range file.Domains {
		n += len(file.Domains[i].Limits)
	}
	return n
}
