// Command throttled-bench measures how fast a server that speaks the Redis protocol
// answers, and what that costs it. It sends CL.THROTTLE or any other command to one or
// more targets, in turn, so that throttled can be compared with Redis by the same run.
//
// # What a latency is
//
// In the closed loop (without -rate) every connection writes -depth requests in one
// write, reads their replies, and starts again. A latency is the time from just before
// that write until the read that completed the reply. A closed loop slows down with its
// target: while the target stalls, few requests are waiting to be measured, so its
// percentiles are those of a polite caller, not of independent ones.
//
// In the open loop (-rate) requests are sent on a schedule that is fixed before the run:
// write j, of -depth requests, is due at j*depth/rate seconds, on connection j modulo
// -conns. A latency is the time from when the request was due, not from when it was
// written. Requests that a stalled target, a full socket or a late generator held up
// therefore show the wait, and nothing hides it (no "coordinated omission"). Nothing
// bounds how many requests of a connection are under way but the sockets' buffers. How
// late the writes were is reported beside the latencies.
//
// Replies with an error count neither as throughput nor in the latencies. Replies that
// deny a request do: denying is a limiter's work.
//
// # How it is measured
//
// Requests that were sent, or in the open loop were due, during -warmup are not counted.
// Throughput is the number of good replies divided by the time from the end of the
// warm-up to the last reply. Latencies go into HDR histograms with three significant
// digits; those of more than 60 seconds count as 60 seconds. With several -rounds, each
// figure is the median of the rounds, but for max, the largest, and counts, the sums.
// The rounds alternate between the targets, so that a noisy moment of the machine does
// not fall on one of them alone.
//
// -threads is the number of cores that the generator may use (GOMAXPROCS). In the closed
// loop there is one goroutine per connection on these. In the open loop there are
// as many goroutines more, each with a thread of its own, which sleep until requests
// are due and write them.
//
// If the target's process is on this machine, and this user may look at it, the report
// shows its CPU time per reply, from the end of the warm-up to the end of the round, and
// its resident memory. The process is the one that has the target's listening socket.
//
// # Caveats
//
// On the same machine, the generator and the target share the cores: throughput is then
// that of both. The report says so when all cores were busy, and it says when the
// generator itself was at its limit; compare the CPU time per request instead.
//
// A target in a container may be reached through a proxy, whose process is then the one
// measured. The kernel counts CPU time in hundredths of a second, so short runs show it
// coarsely. Work that is put off beyond the end of the round is not seen.
package main
