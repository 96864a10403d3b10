package ruleset

import (
	"time"

	"github.com/throttledhq/throttled/rules"
)

// Set is a compiled set of rules.
type Set struct{ file *rules.File }

// File returns the file from which the set was compiled.
func (s *Set) File() *rules.File { return s.file }

// compile parses and compiles a text. The name is used in errors. The error is of type rules.Errors if the text is not
// a valid file.
func compile(name, text string) (*Set, error) {
	file, err := rules.Parse(name, []byte(text), time.LoadLocation)
	if err != nil {
		return nil, err
	}
	return &Set{file}, nil
}

// countLimits returns the number of limits in all domains.
func countLimits(file *rules.File) (n int) {
	for i := range file.Domains {
		n += len(file.Domains[i].Limits)
	}
	return n
}
