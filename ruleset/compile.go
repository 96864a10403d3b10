package ruleset

import (
	"time"

	"github.com/throttledhq/throttled/internal/background"
	"github.com/throttledhq/throttled/rules"
)

// compile parses and compiles a text. The name is used in errors. If the text is not a valid file, the error is of type
// rules.Errors, or names a limit that cannot be compiled.
func compile(name, text string) (*rules.Set, error) {
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
	set, err := s.compile(p.Name, p.Text)
	if err != nil {
		return err
	}
	p.set = set
	return nil
}

// compile is like the function compile. Meanwhile, Memory includes the memory for it.
func (s *Store) compile(name, text string) (*rules.Set, error) {
	s.inCompile.Add(int64(len(text)))
	defer s.inCompile.Add(-int64(len(text)))
	var set *rules.Set
	var err error
	compute(len(text), func() { set, err = compile(name, text) })
	return set, err
}

// largeText is the size from which a text is compiled or patched in the background, in bytes. It takes about 20 ms.
const largeText = 64 << 10

// compute calls f, which takes a time in proportion to the size of a text.
func compute(size int, f func()) {
	if size < largeText {
		f()
		return
	}
	background.Run(f)
}

// countLimits returns the number of limits in all domains.
func countLimits(file *rules.File) (n int) {
	for i := range file.Domains {
		n += len(file.Domains[i].Limits)
	}
	return n
}
