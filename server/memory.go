package server

import (
	"fmt"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"

	"github.com/throttledhq/throttled/limiter"
)

// memoryUse is how much memory is in use, in bytes.
//
// What Redis calls used memory is here what is held for keys, since that is what is
// compared with maxmemory. Connections and all else show in the heap and in rss.
type memoryUse struct {
	limiter.Usage // Bytes is what counts against maxmemory, Dataset what the keys take of it
	heap          goHeap
	rss           int64 // what the system counts for the process; 0 where it does not say
}

// goHeap is what the Go runtime has taken from the system: each contains the one before.
type goHeap struct {
	allocated int64 // objects, live and not yet collected
	active    int64 // the spans they lie in
	resident  int64 // all that has not been given back
}

func (s *Server) memoryUse() memoryUse {
	return memoryUse{s.engine.Usage(), readHeap(), residentBytes()}
}

// overhead returns what is held for keys and taken by none: room to grow.
func (m *memoryUse) overhead() int64 { return m.Bytes - m.Dataset }

func readHeap() goHeap {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	bytes := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	return goHeap{allocated: bytes(0), active: bytes(0) + bytes(1), resident: bytes(2) - bytes(3)}
}

// residentBytes returns the memory that the system counts for the process, or 0 where
// it does not say.
func residentBytes() int64 {
	return numberIn("/proc/self/statm", 1) * int64(os.Getpagesize())
}

// systemBytes returns the memory of the machine, or 0 where the system does not say.
func systemBytes() int64 { return numberIn("/proc/meminfo", 1) << 10 }

// numberIn returns the i-th word of a file as a number, or 0 if there is none.
func numberIn(path string, i int) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	words := strings.Fields(string(text))
	if len(words) <= i {
		return 0
	}
	n, err := strconv.ParseInt(words[i], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// ratio returns a/b, or 0 where b is 0 and there is nothing to compare with.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func percent(part, whole int64) float64 { return 100 * ratio(part, whole) }

// humanBytes renders a size as Redis does.
func humanBytes(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.2fK", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.2fM", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.2fG", float64(n)/(1<<30))
}
