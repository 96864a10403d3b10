// Package loadgen generates load for servers of HTTP/1.1 and gRPC. Its cost per request is low, because the server under
// test runs on the same cores: one thread serves all connections through epoll, requests are copied from templates, and
// replies are parsed only as far as their outcome requires.
//
// [Run] runs a [Load]. A load without a rate is a closed loop: each connection, or stream, sends its next request when
// the reply to the last one has arrived. A load with a rate is an open loop: requests are due at fixed times, and
// latencies count from these times, even if no connection is free (no coordinated omission).
//
// The package works on Linux only.
package loadgen
