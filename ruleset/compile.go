package ruleset

import (
	"time"

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

// countLimits returns the number of limits in all domains.
func countLimits(file *rules.File) (n int) {
	for i := range file.Domains {
		n += len(file.Domains[i].Limits)
	}
	return n
}
