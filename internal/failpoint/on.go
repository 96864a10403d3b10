//go:build chaos

package failpoint

import "os"

var chosen = Bug(os.Getenv("THROTTLED_MUTANT"))

// Is reports whether a bug is enabled.
func Is(b Bug) bool { return chosen == b }
