//go:build chaos

package cluster

import (
	"os"
	"strconv"
	"strings"
	"time"
)

var wallFile = os.Getenv("THROTTLED_CHAOS_WALL")

// Wall returns the wall time, moved by as many nanoseconds as the file says that the
// environment variable THROTTLED_CHAOS_WALL names: a clock that is wrong, for tests.
func Wall() time.Time {
	text, err := os.ReadFile(wallFile)
	if err != nil {
		return time.Now()
	}
	moved, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return time.Now().Add(time.Duration(moved))
}
