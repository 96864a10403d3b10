//go:build !chaos

package cluster

import "time"

// Wall returns the wall time. Log time goes by it only when a cluster begins, or begins again after
// all its nodes were down.
func Wall() time.Time { return time.Now() }
