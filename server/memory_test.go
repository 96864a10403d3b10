package server

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/options"
)

// fixedUsage is an engine that reports a fixed usage.
type fixedUsage struct {
	limiter.Engine
	usage limiter.Usage
}

func (e fixedUsage) Usage() limiter.Usage { return e.usage }

// TestMemoryReportsAgree fills a table, and checks that INFO memory, MEMORY STATS, and the sum of MEMORY USAGE over all
// keys agree.
func TestMemoryReportsAgree(t *testing.T) {
	t.Parallel()
	s, _ := startFrozen(t, nil)
	p := s.dial()
	for _, keys := range []int{0, 1, 100, 5000} {
		for i := range keys {
			s.engine.Decide([]limiter.Request{{
				Kind: limiter.Throttle, Key: fmt.Appendf(nil, "user:%0*d", i%50, i), Limit: limiter.Limit{Max: 5, Interval: 3600e9}, Quantity: 1,
			}}, make([]limiter.Decision, 1))
		}
		sum, count := usageOfAll(p)
		info, usage := p.info("memory"), s.engine.Usage()
		for name, want := range map[string]int64{
			"used_memory": usage.Bytes, "used_memory_peak": usage.Peak, "used_memory_dataset": sum,
			"used_memory_overhead": usage.Bytes - sum, "used_memory_startup": 0,
		} {
			if info[name] != strconv.FormatInt(want, 10) {
				t.Errorf("%d keys: INFO: %s is %s, want %d", keys, name, info[name], want)
			}
		}
		stats := p.ask("MEMORY", "STATS")
		for name, want := range map[string]int64{
			"total.allocated": usage.Bytes, "peak.allocated": usage.Peak, "dataset.bytes": sum,
			"overhead.total": usage.Bytes - sum, "keys.count": count, "keys.bytes-per-key": usage.Bytes / max(count, 1),
			"startup.allocated": 0, "replication.backlog": 0, "clients.slaves": 0, "aof.buffer": 0,
		} {
			if got, found := stats.field(name); !found || got.int() != want {
				t.Errorf("%d keys: MEMORY STATS: %s is %s, want %d", keys, name, got, want)
			}
		}
		if sum > usage.Bytes || (sum > 0) != (count > 0) {
			t.Errorf("MEMORY USAGE of all %d keys is %d bytes, and Usage.Bytes is %d; want at most Usage.Bytes, and more than 0 if there are keys", count, sum, usage.Bytes)
		}
	}
}

// usageOfAll returns the sum of MEMORY USAGE over all keys, and their number.
func usageOfAll(p *peer) (sum, count int64) {
	for cursor := "0"; ; {
		step := p.ask("SCAN", cursor, "COUNT", "1000").list
		for _, key := range step[1].words() {
			sum += p.ask("MEMORY", "USAGE", key).int()
			count++
		}
		if cursor = step[0].text; cursor == "0" {
			return sum, count
		}
	}
}

// TestMemoryStatsTypes checks the types of the percentages in both versions of the protocol.
func TestMemoryStatsTypes(t *testing.T) {
	t.Parallel()
	p := setup{engine: fixedUsage{usage: limiter.Usage{Keys: 3, Bytes: 1000, Peak: 4000, Dataset: 375}}}.start(t).dial()
	for version, kind := range map[string]byte{"2": '$', "3": ','} {
		p.ask("HELLO", version)
		stats := p.ask("MEMORY", "STATS")
		for name, want := range map[string]string{"dataset.percentage": "37.5", "peak.percentage": "25"} {
			if got, _ := stats.field(name); got.kind != kind || got.text != want {
				t.Errorf("RESP%s: %s is %s, want %c%q", version, name, got, kind, want)
			}
		}
		for i := 1; i < len(stats.list); i += 2 {
			f, err := strconv.ParseFloat(stats.list[i].text, 64)
			if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
				t.Errorf("%s is %s, want a finite number", stats.list[i-1], stats.list[i])
			}
		}
	}
	info := p.info("memory")
	for name, want := range map[string]string{
		"used_memory_human": "1000B", "used_memory_peak_perc": "25.00%", "used_memory_dataset_perc": "37.50%", "used_memory_overhead": "625",
	} {
		if info[name] != want {
			t.Errorf("%s is %s, want %s", name, info[name], want)
		}
	}
}

// TestHeapIsCounted checks that each field of goHeap includes the previous one, and that the resident set size of the
// process is plausible.
func TestHeapIsCounted(t *testing.T) {
	m := start(t, nil).memoryUse()
	if m.heap.allocated <= 0 || m.heap.active < m.heap.allocated || m.heap.resident < m.heap.active {
		t.Errorf("the heap is %+v, want allocated > 0, active >= allocated, resident >= active", m.heap)
	}
	if m.rss < 1<<20 || m.rss > systemBytes() {
		t.Errorf("the resident set size is %d, want at least 1 MiB and at most %d", m.rss, systemBytes())
	}
	if n := numberIn("/nonexistent", 0) + numberIn("/proc/self/statm", 99) + numberIn("/proc/meminfo", 0); n != 0 {
		t.Errorf("a missing number is read as %d, want 0", n)
	}
}

func TestInfoOfPolicyAndEvictions(t *testing.T) {
	t.Parallel()
	p := setup{
		engine:  fixedUsage{usage: limiter.Usage{Evicted: 17}},
		options: func(o *options.Options) { o.MaxMemory, o.MaxMemoryPolicy = 1<<20, "evict-smallest-debt" },
	}.start(t).dial()
	if got := p.count("stats", "evicted_keys"); got != 17 {
		t.Errorf("evicted_keys is %d, want 17", got)
	}
	info := p.info("memory")
	if info["maxmemory"] != "1048576" || info["maxmemory_human"] != "1.00M" || info["maxmemory_policy"] != "evict-smallest-debt" {
		t.Errorf("INFO memory: %v, want maxmemory 1048576, 1.00M and evict-smallest-debt", info)
	}
}

func TestMemoryDoctor(t *testing.T) {
	const mib = 1 << 20
	f := func(m memoryUse, maxMemory int64, want ...string) {
		t.Helper()
		o := options.Default()
		o.MaxMemory = maxMemory
		got := diagnose(&m, &o)
		for i := range max(len(got), len(want)) {
			if len(got) != len(want) || !strings.Contains(got[i], want[i]) {
				t.Errorf("%+v: the diagnosis has the texts %q, want texts that contain, in this order, %q", m, got, want)
				return
			}
		}
	}
	f(memoryUse{}, 0, "No problems found")
	f(memoryUse{Usage: limiter.Usage{Keys: 5, Bytes: mib, Peak: mib}, rss: 20 * mib}, 0, "5 keys use 1.00M, and the process uses 20.00M")
	f(memoryUse{Usage: limiter.Usage{Bytes: 89, Peak: 89}}, 100, "No problems found")
	f(memoryUse{Usage: limiter.Usage{Bytes: 90, Peak: 90}}, 100, "90B of 100B are in use. The policy is noeviction.")
	f(memoryUse{Usage: limiter.Usage{Evicted: 7}}, 100, "7 keys have been evicted")
	f(memoryUse{Usage: limiter.Usage{Bytes: 4 * mib, Peak: 9 * mib}}, 0, "peak memory of the keys was 9.00M. They use 4.00M now")
	f(memoryUse{Usage: limiter.Usage{Bytes: mib, Peak: mib}, rss: 80 * mib}, 0, "79.00M besides the keys")
	f(memoryUse{Usage: limiter.Usage{Bytes: 100 * mib, Peak: 100 * mib}, rss: 199 * mib}, 0, "No problems found")
	f(memoryUse{Usage: limiter.Usage{Bytes: 95, Peak: 900, Evicted: 1}}, 100, "nearly reached", "evicted", "peak memory")
}

// TestMemoryCommands runs the subcommands of MEMORY that reply with text.
func TestMemoryCommands(t *testing.T) {
	t.Parallel()
	p := start(t, nil).dial()
	if got := p.ask("MEMORY", "DOCTOR").text; !strings.HasPrefix(got, "No problems found: 0 keys") {
		// Other tests run in the same process, so its memory may be large.
		if !strings.HasPrefix(got, "The process uses") {
			t.Errorf("MEMORY DOCTOR: %q, want a text that reports no problems, or only the memory of the process", got)
		}
	}
	stats := p.ask("MEMORY", "MALLOC-STATS").text
	for _, want := range []string{"/memory/classes/total:bytes ", "/memory/classes/heap/objects:bytes ", "/gc/cycles/total:gc-cycles "} {
		if !strings.Contains(stats, want) {
			t.Errorf("MEMORY MALLOC-STATS lacks %q: %q", want, stats)
		}
	}
	before := p.ask("MEMORY", "MALLOC-STATS").text
	p.do("+OK\r\n", "MEMORY", "PURGE")
	const cycles = "/gc/cycles/forced:gc-cycles "
	if after := p.ask("MEMORY", "MALLOC-STATS").text; numberBehind(t, after, cycles) <= numberBehind(t, before, cycles) {
		t.Error("MEMORY PURGE did not run a garbage collection")
	}
	p.do("+OK\r\n", "MULTI")
	p.do("+QUEUED\r\n", "MEMORY", "PURGE")
	p.do("*1\r\n"+failure(errPurgeMulti), "EXEC")
}

func numberBehind(t *testing.T, text, label string) int64 {
	t.Helper()
	_, rest, found := strings.Cut(text, label)
	digits, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(digits, 10, 64)
	if !found || err != nil {
		t.Fatalf("no number after %q: %v", label, err)
	}
	return n
}
