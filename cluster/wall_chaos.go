//go:build chaos

package cluster

import (
	"os"
	"strconv"
	"strings"
	"time"
)

var wallFile = os.Getenv("THROTTLED_CHAOS_WALL")

// Wall returns the wall time plus an offset, to simulate a wrong clock in tests. The offset in nanoseconds is read from
// the file that the environment variable THROTTLED_CHAOS_WALL names.
func Wall() time.Time {
	text, err := os.ReadFile(wallFile)
	if err != nil {
		return time.Now()
	}
	moved, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return time.Now().Add(time.Duration(moved))
}
