//go:build !chaos

package cluster

import "time"

// Wall returns the wall time. It is only looked at when a cluster begins, or begins again after
// all its nodes were down.
func Wall() time.Time { return time.Now() }
