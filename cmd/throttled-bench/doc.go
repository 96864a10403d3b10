// Command throttled-bench measures the throughput, latency and CPU cost of servers that
// speak the Redis protocol. It sends CL.THROTTLE or any other command to one or more
// targets in turn, so that one run can compare throttled with Redis.
//
// # Latency
//
// In the closed loop (without -rate) each connection sends -depth requests in one write,
// reads their replies, and repeats. A latency is the time from just before the write to
// the read that completed the reply. A closed loop slows down with its target: it sends no
// further requests while the target stalls. Independent clients would continue to send, so
// the percentiles do not describe the latencies of such clients.
//
// In the open loop (-rate) requests are sent on a schedule that is fixed before the run.
// Each write has -depth requests. Write j is due at j*depth/rate seconds, on connection j
// modulo -conns. A latency is measured from the time at which the request was due, not from
// the time of the write. It therefore includes the delay caused by a stalled target, a full
// socket or a late generator (no "coordinated omission"). The number of requests in flight
// on a connection is limited only by the socket buffers. The delay of the writes is
// reported separately.
//
// Error replies are excluded from throughput and latencies. Replies that deny a request
// are included, since denial is a regular result of a limiter.
//
// # Method
//
// Requests that are sent during -warmup are not counted. In the open loop, the time at
// which a request is due determines whether it is counted. Throughput is the number of
// replies other than errors, divided by the time from the end of the warm-up to the last
// reply. Latencies are recorded in HDR histograms with three significant digits; values
// above 60 seconds are recorded as 60 seconds. With several -rounds, max is the maximum
// of the rounds, counts are sums, and all other figures are medians. The rounds alternate
// between the targets, so that temporary load on the machine does not affect a single
// target only.
//
// -threads is the number of cores that the generator may use (GOMAXPROCS). Each connection
// has one goroutine. The open loop adds one goroutine per thread, but at most one per
// connection. Each added goroutine is locked to an OS thread, sleeps until requests are
// due, and writes them. GOMAXPROCS is raised by the number of added goroutines.
//
// If the target runs on this machine and its process is visible to the user, the report
// contains its CPU time per reply, from the end of the warm-up to the end of the round,
// and its resident memory. The process is the owner of the target's listening socket.
//
// # Caveats
//
// On the same machine, the generator and the target share the cores, and throughput
// depends on both. The report contains a note if all cores were busy, or if the generator
// was at its limit. In these cases, compare the CPU time per request.
//
// If a target in a container is reached through a proxy, the process of the proxy is
// measured instead. The kernel counts CPU time in hundredths of a second, so CPU figures
// of short runs are coarse. Work that the target defers beyond the end of the round is not
// measured.
package main
