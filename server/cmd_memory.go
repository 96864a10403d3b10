package server

import (
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"

	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/resp"
)

func infoMemory(s *Server, w *infoWriter) {
	o := s.opts.Get()
	m := s.memoryUse()
	sized := func(name string, n int64) {
		w.field(name, n)
		w.field(name+"_human", humanBytes(n))
	}
	sized("used_memory", m.Bytes)
	sized("used_memory_rss", m.rss)
	sized("used_memory_peak", m.Peak)
	w.field("used_memory_peak_perc", formatFloat(percent(m.Bytes, m.Peak))+"%")
	w.field("used_memory_overhead", m.overhead())
	w.field("used_memory_startup", 0)
	w.field("used_memory_dataset", m.Dataset)
	w.field("used_memory_dataset_perc", formatFloat(percent(m.Dataset, m.Bytes))+"%")
	w.field("allocator_allocated", m.heap.allocated)
	w.field("allocator_active", m.heap.active)
	w.field("allocator_resident", m.heap.resident)
	sized("total_system_memory", systemBytes())
	sized("maxmemory", o.MaxMemory)
	w.field("maxmemory_policy", o.MaxMemoryPolicy)
	w.field("allocator_frag_ratio", formatFloat(ratio(m.heap.active, m.heap.allocated)))
	w.field("allocator_frag_bytes", m.heap.active-m.heap.allocated)
	w.field("allocator_rss_ratio", formatFloat(ratio(m.heap.resident, m.heap.active)))
	w.field("allocator_rss_bytes", m.heap.resident-m.heap.active)
	w.field("rss_overhead_ratio", formatFloat(ratio(m.rss, m.heap.resident)))
	w.field("rss_overhead_bytes", m.rss-m.heap.resident)
	w.field("mem_fragmentation_ratio", formatFloat(ratio(m.rss, m.Bytes)))
	w.field("mem_fragmentation_bytes", m.rss-m.Bytes)
	w.field("mem_not_counted_for_evict", 0)
	normal, peers := s.clientBytes()
	w.field("mem_clients_normal", normal)
	w.field("mem_clients_slaves", peers)
	w.field("maxmemory_clients", o.ClientMemory())
	w.field("mem_allocator", "go")
}

// cmdMemoryStats replies with the values of INFO memory under the names that MEMORY STATS uses in Redis. The field
// keys.bytes-per-key is 0 if there are no keys. This field does not include the memory of connections, for which there
// are separate fields.
func cmdMemoryStats(c *client, _ [][]byte) error {
	m := c.srv.memoryUse()
	normal, peers := c.srv.clientBytes()
	perKey := int64(ratio(m.Bytes, m.Keys))
	fields := []struct {
		name  string
		value any // int64 or float64
	}{
		{"peak.allocated", m.Peak},
		{"total.allocated", m.Bytes},
		{"startup.allocated", int64(0)},
		{"replication.backlog", int64(0)},
		{"clients.slaves", peers},
		{"clients.normal", normal},
		{"cluster.links", int64(0)},
		{"aof.buffer", int64(0)},
		{"overhead.total", m.overhead()},
		{"keys.count", m.Keys},
		{"keys.bytes-per-key", perKey},
		{"dataset.bytes", m.Dataset},
		{"dataset.percentage", percent(m.Dataset, m.Bytes)},
		{"peak.percentage", percent(m.Bytes, m.Peak)},
		{"allocator.allocated", m.heap.allocated},
		{"allocator.active", m.heap.active},
		{"allocator.resident", m.heap.resident},
		{"allocator-fragmentation.ratio", ratio(m.heap.active, m.heap.allocated)},
		{"allocator-fragmentation.bytes", m.heap.active - m.heap.allocated},
		{"allocator-rss.ratio", ratio(m.heap.resident, m.heap.active)},
		{"allocator-rss.bytes", m.heap.resident - m.heap.active},
		{"rss-overhead.ratio", ratio(m.rss, m.heap.resident)},
		{"rss-overhead.bytes", m.rss - m.heap.resident},
		{"fragmentation", ratio(m.rss, m.Bytes)},
		{"fragmentation.bytes", m.rss - m.Bytes},
	}
	c.out.Map(len(fields))
	for _, f := range fields {
		c.out.Text(f.name)
		if n, whole := f.value.(int64); whole {
			c.out.Int(n)
		} else {
			replyDouble(&c.out, f.value.(float64))
		}
	}
	return nil
}

// replyDouble appends a finite number: as a double in RESP3, and as text in RESP2.
func replyDouble(out *resp.Reply, f float64) {
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if out.Protocol() == 3 {
		out.Raw([]byte("," + text + "\r\n"))
	} else {
		out.Text(text)
	}
}

func cmdMemoryDoctor(c *client, _ [][]byte) error {
	m := c.srv.memoryUse()
	c.out.Verbatim(strings.Join(diagnose(&m, c.srv.opts.Get()), "\n") + "\n")
	return nil
}

// Thresholds of the findings that MEMORY DOCTOR reports.
const (
	nearlyFull     = 0.9      // at least this share of maxmemory is in use
	shrunken       = 0.5      // less than this share of the peak is in use
	manyOtherBytes = 64 << 20 // the rest of the process uses more bytes than this, and more than the keys use
)

// diagnose returns the report of MEMORY DOCTOR, one line per finding.
func diagnose(m *memoryUse, o *options.Options) []string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if o.MaxMemory > 0 && float64(m.Bytes) >= nearlyFull*float64(o.MaxMemory) {
		say("maxmemory is nearly reached: %s of %s are in use. The policy is %s.", humanBytes(m.Bytes), humanBytes(o.MaxMemory), o.MaxMemoryPolicy)
	}
	if m.Evicted > 0 {
		say("%d keys have been evicted because memory was full; their full limits were restored early.", m.Evicted)
	}
	if float64(m.Bytes) < shrunken*float64(m.Peak) {
		say("The peak memory of the keys was %s. They use %s now.", humanBytes(m.Peak), humanBytes(m.Bytes))
	}
	if besides := m.rss - m.Bytes; besides > max(manyOtherBytes, m.Bytes) {
		say("The process uses %s besides the keys. MEMORY PURGE returns unused memory to the operating system.", humanBytes(besides))
	}
	if len(lines) == 0 {
		say("No problems found: %d keys use %s, and the process uses %s.", m.Keys, humanBytes(m.Bytes), humanBytes(m.rss))
	}
	return lines
}

// cmdMemoryMallocStats replies with the memory metrics of the Go runtime.
func cmdMemoryMallocStats(c *client, _ [][]byte) error {
	var samples []metrics.Sample
	for _, d := range metrics.All() {
		if d.Kind == metrics.KindUint64 && (strings.HasPrefix(d.Name, "/memory/classes/") || strings.HasPrefix(d.Name, "/gc/")) {
			samples = append(samples, metrics.Sample{Name: d.Name})
		}
	}
	metrics.Read(samples)
	var b strings.Builder
	for _, s := range samples {
		if n := s.Value.Uint64(); n < math.MaxInt64 { // a limit that is not set has this value or a larger one
			fmt.Fprintf(&b, "%s %d\n", s.Name, n)
		}
	}
	c.out.Verbatim(b.String())
	return nil
}

// cmdMemoryPurge runs a garbage collection and returns free memory to the operating system. It may take some time, but
// does not block other clients.
func cmdMemoryPurge(c *client, _ [][]byte) error {
	if c.session.tx.running {
		return errPurgeMulti
	}
	debug.FreeOSMemory()
	c.out.OK()
	return nil
}

func cmdMemoryUsage(c *client, args [][]byte) error {
	if err := checkSamples(args[3:]); err != nil {
		return err
	}
	if entry, found := c.srv.engine.Lookup(args[2]); found {
		c.out.Int(entry.Bytes)
	} else {
		c.out.Null()
	}
	return nil
}

// checkSamples checks the arguments SAMPLES n. They have no effect, since keys have no elements to sample.
func checkSamples(args [][]byte) error {
	for ; len(args) > 0; args = args[2:] {
		if len(args) < 2 || !isOneOf(args[0], "samples") {
			return errSyntax
		}
		if n, ok := resp.ParseInt(args[1]); !ok {
			return errNotInteger
		} else if n < 0 {
			return errSyntax
		}
	}
	return nil
}
