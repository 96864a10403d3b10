package server

import (
	"fmt"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"

	"github.com/throttledhq/throttled/limiter"
)

// memoryUse is the memory in use, in bytes.
//
// In the fields in which Redis reports its used memory, this server reports the memory held for keys, which it compares
// with maxmemory. All other memory, such as that of connections, is included only in the fields heap and rss.
type memoryUse struct {
	limiter.Usage // Bytes counts against maxmemory; Dataset is the part used by keys
	heap          goHeap
	rss           int64 // resident set size of the process; 0 if unknown
}

// goHeap is the memory of the Go runtime. Each field includes the previous one.
type goHeap struct {
	allocated int64 // objects, live or not yet collected
	active    int64 // all spans that contain objects
	resident  int64 // all memory that has not been returned to the system
}

func (s *Server) memoryUse() memoryUse {
	return memoryUse{s.engine.Usage(), readHeap(), residentBytes()}
}

// overhead returns the memory that is held for keys but not used by any key.
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

// residentBytes returns the resident set size of the process, or 0 if it is unknown.
func residentBytes() int64 {
	return numberIn("/proc/self/statm", 1) * int64(os.Getpagesize())
}

// systemBytes returns the physical memory of the machine, or 0 if it is unknown.
func systemBytes() int64 { return numberIn("/proc/meminfo", 1) << 10 }

// numberIn returns the i-th field of a file as a number, or 0 on any error. Fields are separated by
// white space and counted from 0.
func numberIn(path string, i int) int64 {
	text, err := os.ReadFile(path) // #nosec G304 -- a constant path, or a file of the cgroup of the process
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

// ratio returns a/b, or 0 if b is 0.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func percent(part, whole int64) float64 { return 100 * ratio(part, whole) }

// humanBytes formats a size as Redis does.
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
