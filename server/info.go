package server

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/throttledhq/throttled/internal/histogram"
	"github.com/throttledhq/throttled/limiter"
)

// infoSection is a section of INFO. It contains the fields of Redis that monitoring tools read, under the same names,
// and fields of this server. Other fields of Redis are absent.
type infoSection struct {
	title     string
	byDefault bool
	profiles  profileSet
	write     func(s *Server, w *infoWriter)
}

var infoSections = []infoSection{
	{"Server", true, onAll, infoServer},
	{"Clients", true, onAll, infoClients},
	{"Memory", true, onData, infoMemory},
	{"Persistence", true, onData, infoPersistence},
	{"Stats", true, onAll, infoStats},
	{"Replication", true, onData, infoReplication},
	{sidecarSection, true, onRedis, infoSidecar},
	{"Rules", true, onData, infoRules},
	{"Users", true, onData, infoUsers},
	{"Leases", false, onData, infoLeases},
	{"CPU", true, onAll, infoCPU},
	{"Modules", true, onData, infoModules},
	{"Commandstats", false, onAll, infoCommandStats},
	{"Errorstats", true, onAll, infoErrorStats},
	{"Latencystats", false, onAll, infoLatencyStats},
	{"Cluster", true, onData, infoCluster},
	{"Keyspace", true, onData, infoKeyspace},
	{"Sentinel", true, onSentinel, infoSentinel},
}

// sidecarSection is the title of the section that only a sidecar has.
const sidecarSection = "Sidecar"

// infoWriter builds the "name:value" lines of INFO for the clients of a listener profile.
type infoWriter struct {
	strings.Builder
	listener *listenerProfile
}

func (w *infoWriter) field(name string, value any) {
	_, _ = fmt.Fprintf(w, "%s:%v\r\n", name, value) // a Builder never fails
}

// cmdInfo replies with the named sections, or with the default sections if no section is named. Unknown names are
// ignored, as in Redis.
func cmdInfo(c *client, args [][]byte) error {
	wanted := make([]string, 0, len(args))
	for _, arg := range args[1:] {
		wanted = append(wanted, strings.ToLower(string(arg)))
	}
	if len(wanted) == 0 {
		wanted = []string{"default"}
	}
	w := infoWriter{listener: c.listener}
	for _, section := range infoSections {
		if section.profiles&c.listener.set == 0 || !section.wanted(wanted) || section.title == sidecarSection && !c.srv.isSidecar() {
			continue
		}
		if w.Len() > 0 {
			_, _ = w.WriteString("\r\n") // never fails
		}
		_, _ = w.WriteString("# " + section.title + "\r\n")
		section.write(c.srv, &w)
	}
	c.out.Verbatim(w.String())
	return nil
}

func (s *infoSection) wanted(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == "all" || name == "everything" || name == "default" && s.byDefault || name == strings.ToLower(s.title)
	})
}

func infoServer(s *Server, w *infoWriter) {
	o := s.opts.Get()
	executable, _ := os.Executable() // on an error the field is empty
	up := s.uptime()
	w.field("redis_version", redisVersion)
	w.field("redis_mode", w.listener.mode)
	w.field("server_name", "throttled")
	w.field("throttled_version", s.version)
	w.field("os", runtime.GOOS)
	w.field("arch_bits", strconv.IntSize)
	w.field("go_version", runtime.Version())
	w.field("process_id", os.Getpid())
	w.field("run_id", s.runID)
	w.field("tcp_port", w.listener.port(o))
	w.field("server_time_usec", time.Now().UnixMicro())
	w.field("uptime_in_seconds", int64(up.Seconds()))
	w.field("uptime_in_days", int64(up.Hours()/24))
	w.field("hz", int(time.Second/tick))
	w.field("executable", executable)
	w.field("config_file", s.opts.File())
	reason := ""
	if err := s.Ready(); err != nil {
		reason = err.Error()
	}
	w.field("ready", countTrue(reason == ""))
	w.field("not_ready_reason", reason)
}

func infoClients(s *Server, w *infoWriter) {
	var connected, peers, subscribers, trackers, monitors int
	for _, c := range s.sortedClients() {
		i := c.session.currentInfo()
		connected += countTrue(!c.listener.trusted)
		peers += countTrue(c.listener.trusted)
		subscribers += countTrue(i.channels+i.patterns > 0)
		trackers += countTrue(i.tracking)
		monitors += countTrue(i.monitor)
	}
	w.field("connected_clients", connected)
	w.field("maxclients", clientLimit(s.opts.Get()))
	w.field("blocked_clients", 0)
	w.field("tracking_clients", trackers)
	w.field("pubsub_clients", subscribers)
	w.field("monitor_clients", monitors)
	if s.clustered() {
		w.field("peer_streams", peers)
	}
}

func infoStats(s *Server, w *infoWriter) {
	ops, in, out := s.stats.rates.perSecond()
	usage := s.engine.Usage()
	errors := int64(0)
	for _, n := range s.stats.errorCounts() {
		errors += n
	}
	w.field("total_connections_received", s.stats.connections.Load())
	w.field("total_commands_processed", s.stats.processed())
	w.field("instantaneous_ops_per_sec", int64(ops))
	w.field("total_net_input_bytes", s.stats.netIn.Load())
	w.field("total_net_output_bytes", s.stats.netOut.Load())
	w.field("instantaneous_input_kbps", formatFloat(in/1024))
	w.field("instantaneous_output_kbps", formatFloat(out/1024))
	w.field("rejected_connections", s.stats.rejected.Load())
	w.field("expired_keys", usage.Expired)
	w.field("evicted_keys", usage.Evicted)
	w.field("evicted_clients", s.clientMemory.evicted.Load())
	w.field("keyspace_hits", usage.Hits)
	w.field("keyspace_misses", usage.Misses)
	w.field("pubsub_channels", s.broker.count(false))
	w.field("pubsub_patterns", s.broker.count(true))
	w.field("total_error_replies", errors)
	w.field("total_reads_processed", s.stats.reads.Load())
	w.field("total_writes_processed", s.stats.writes.Load())
	w.field("acl_access_denied_auth", s.auth.failed.Load())
	for i := range denials {
		if denials[i].counter != "" {
			w.field(denials[i].counter, s.users.denials.counts[i].Load())
		}
	}
	w.field("auth_attempts_refused", s.auth.refused.Load())
	w.field("displaced_connections", s.stats.displaced.Load())
	if t := s.tlsStatistics(); t.Used {
		w.field("tls_handshakes", t.Completed)
		w.field("tls_handshakes_failed", t.Failed)
		w.field("tls_handshakes_timed_out", t.TimedOut)
		w.field("tls_handshakes_displaced", t.Displaced)
		w.field("tls_handshakes_pending", t.Pending)
	}
	w.field("limited_decisions", s.stats.limited())
	for _, count := range s.rules.counts.all() {
		w.field(count.name, count.n.Load())
	}
	w.field("protocol_errors", s.stats.protocolErrors.Load())
	w.field("timed_out_connections", s.stats.timeouts.Load())
	w.field("overload_refused", s.stats.overloaded.Load())
	w.field("overload_waiting_clients", s.overload.waiting.Load())
	w.field("handler_panics", s.stats.panics.Load())
	if s.cluster != nil {
		w.field("forwarded_commands", s.forward.Commands.Load())
		w.field("forward_retries", s.forward.Retries.Load())
		w.field("forward_errors", s.forward.Errors.Load())
	}
	infoPauses(usage.Pauses, w)
}

// infoPauses writes, for each type of maintenance work, the longest time for which the work has blocked decisions since
// the server was started.
func infoPauses(p limiter.Pauses, w *infoWriter) {
	w.field("longest_growth_usec", p.Growth.Microseconds())
	w.field("longest_compaction_usec", p.Compaction.Microseconds())
	w.field("longest_eviction_usec", p.Eviction.Microseconds())
	w.field("longest_sweep_usec", p.Sweep.Microseconds())
	w.field("longest_snapshot_usec", p.Copy.Microseconds())
	w.field("longest_gc_usec", longestCollection().Microseconds())
}

// longestCollection returns the longest stop-the-world pause of the garbage collector.
func longestCollection() time.Duration {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	h := sample[0].Value.Float64Histogram()
	for i := len(h.Counts) - 1; i >= 0; i-- {
		if h.Counts[i] > 0 {
			// This is the lower bound of the bucket, since the upper bound of the last bucket is infinite.
			return time.Duration(h.Buckets[i] * float64(time.Second))
		}
	}
	return 0
}

func infoCPU(_ *Server, w *infoWriter) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return
	}
	w.field("used_cpu_sys", fmt.Sprintf("%d.%06d", r.Stime.Sec, r.Stime.Usec))
	w.field("used_cpu_user", fmt.Sprintf("%d.%06d", r.Utime.Sec, r.Utime.Usec))
}

// infoModules writes the module that MODULE LIST also returns.
func infoModules(_ *Server, w *infoWriter) {
	w.field("module", fmt.Sprintf("name=%s,ver=%d,api=1,filters=0,usedby=[],using=[],options=[]", cellModule, cellVersion))
}

func infoCommandStats(s *Server, w *infoWriter) {
	for id, name := range s.names {
		cs := &s.stats.commands[id]
		calls, usec := cs.calls.Load(), cs.times.Sum()/int64(time.Microsecond)
		rejected, failed := cs.rejected.Load(), cs.failed.Load()
		if calls+rejected == 0 {
			continue
		}
		w.field("cmdstat_"+name, fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			calls, usec, float64(usec)/float64(max(calls, 1)), rejected, failed))
	}
}

func infoErrorStats(s *Server, w *infoWriter) {
	counts := s.stats.errorCounts()
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		w.field("errorstat_"+code, fmt.Sprintf("count=%d", counts[code]))
	}
}

func infoLatencyStats(s *Server, w *infoWriter) {
	for id, name := range s.names {
		cs := &s.stats.commands[id]
		if cs.calls.Load() == 0 {
			continue
		}
		times := cs.times.Load()
		usec := func(p float64) float64 {
			return float64(histogram.DurationBound(times.Quantile(p))) / float64(time.Microsecond)
		}
		w.field("latency_percentiles_usec_"+name,
			fmt.Sprintf("p50=%.3f,p99=%.3f,p99.9=%.3f", usec(0.5), usec(0.99), usec(0.999)))
	}
}

func infoCluster(_ *Server, w *infoWriter) {
	w.field("cluster_enabled", countTrue(w.listener.set == onCluster))
}

// infoKeyspace writes the number of keys in database 0, the only one. Every key has an expiration time, so the fields
// keys and expires have the same value.
func infoKeyspace(s *Server, w *infoWriter) {
	if keys := s.engine.Usage().Keys; keys > 0 {
		w.field("db0", fmt.Sprintf("keys=%d,expires=%d,avg_ttl=0", keys, keys))
	}
}

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }
