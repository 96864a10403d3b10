// Package goroutines finds goroutines by their stacks, so that a test can check that no goroutine
// leaks. Counting goroutines is not sufficient: goroutines of the runtime, of the testing
// package and of other tests start and end concurrently.
//
// Only tests import it.
package goroutines

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience is the maximum time to wait for goroutines to end. Only a failing test waits that long.
const patience = 2 * time.Minute

// Of returns the stacks of the goroutines that run a function whose name begins with prefix, or that were
// started by such a function. A prefix is, for example, "example.com/module/pkg.(*Type)". The keys of the map
// are goroutine numbers.
func Of(prefix string) map[string]string {
	found := map[string]string{}
	for _, stack := range strings.Split(all(), "\n\n") {
		if strings.Contains(stack, "\n"+prefix) || strings.Contains(stack, "\ncreated by "+prefix) {
			number, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
			found[number] = stack
		}
	}
	return found
}

// all returns the stacks of all goroutines.
func all() string {
	for size := 1 << 20; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size {
			return string(buf[:n])
		}
	}
}

// AwaitEnd waits until the goroutines that Of(prefix) returns have ended. It ignores the goroutines in
// the before map, which is an earlier result of Of, or nil. It fails the test with the stacks of the
// goroutines that do not end.
func AwaitEnd(t testing.TB, prefix string, before map[string]string) {
	t.Helper()
	left := Since(before, prefix)
	pause := time.Millisecond
	for end := time.Now().Add(patience); len(left) > 0 && time.Now().Before(end); left = Since(before, prefix) {
		<-time.After(pause)
		pause = min(2*pause, time.Second)
	}
	if len(left) > 0 {
		t.Errorf("%d goroutines of %s are left:\n%s", len(left), prefix, strings.Join(slices.Collect(maps.Values(left)), "\n\n"))
	}
}

// Since returns the goroutines that Of(prefix) returns and that are not in the before map, which is an
// earlier result of Of, or nil.
func Since(before map[string]string, prefix string) map[string]string {
	found := Of(prefix)
	maps.DeleteFunc(found, func(number, _ string) bool { _, old := before[number]; return old })
	return found
}
