//go:build !chaos

package cluster

import "time"

// Wall returns the wall time. Log time depends on it only when a cluster is bootstrapped, and after a majority of its
// nodes was down at the same time.
func Wall() time.Time { return time.Now() }
