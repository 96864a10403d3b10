//go:build !chaos

package cluster

import "time"

// Wall returns the wall time. Log time depends on it only when a cluster begins, or begins again after all of its nodes
// were down.
func Wall() time.Time { return time.Now() }
