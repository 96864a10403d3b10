//go:build chaos

package failpoint

import (
	_ "embed"
	"fmt"
	"os"
	"strings"
)

var chosen = Bug(os.Getenv("THROTTLED_MUTANT"))

// source contains the names of all bugs.
//
//go:embed failpoint.go
var source string

// init exits with status 2 if the chosen bug does not exist. Otherwise a test of a misspelled bug would report that no
// check detects it.
func init() {
	if chosen != "" && !strings.Contains(source, fmt.Sprintf(" Bug = %q", string(chosen))) {
		fmt.Fprintf(os.Stderr, "THROTTLED_MUTANT=%s: there is no such bug; docs/mutants.md lists all\n", chosen)
		os.Exit(2)
	}
}

// Is reports whether a bug is enabled.
func Is(b Bug) bool { return chosen == b }
