package grpcedge

import (
	"context"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// benchRules has a limit that the benchmarks do not reach.
const benchRules = `
version: 1
domain: bench
semantics: envoy
limits:
  user:
    when: {descriptor: "path,user"}
    per: [user]
    allow: 1000M per day
    algorithm: fixed
  path:
    when: {descriptor: path}
    per: [path]
    allow: 1000M per day
    algorithm: fixed
`

// BenchmarkShouldRateLimit measures the service without the transport.
func BenchmarkShouldRateLimit(b *testing.B) {
	l := newLab(b, benchRules)
	s := &rateLimits{core: l.server.core}
	for _, tt := range benchRequests() {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.ShouldRateLimit(context.Background(), tt.request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type benchRequest struct {
	name    string
	request *pb.RateLimitRequest
}

func benchRequests() []benchRequest {
	return []benchRequest{
		{"one", request("bench", entries("path", "/a"))},
		{"two", request("bench", entries("path", "/a"), entries("path", "/a", "user", "ann"))},
	}
}

// BenchmarkClients measures requests of concurrent clients over TCP, in requests per second. The clients run on the same
// processors.
func BenchmarkClients(b *testing.B) {
	for _, connections := range []int{1, 4} {
		b.Run(strconv.Itoa(connections)+"-connections", func(b *testing.B) { benchClients(b, connections) })
	}
}

func benchClients(b *testing.B, connections int) {
	l := newLab(b, benchRules)
	clients := make([]pb.RateLimitServiceClient, connections)
	for i := range clients {
		clients[i] = l.client()
	}
	var next atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	before := cpuTime(b)
	b.RunParallel(func(p *testing.PB) {
		client := clients[next.Add(1)%int64(connections)]
		r := request("bench", entries("path", "/a", "user", strconv.FormatInt(next.Load(), 10)))
		for p.Next() {
			if _, err := client.ShouldRateLimit(context.Background(), r); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// cpuTime returns the time for which this process has used processors. It depends less on other programs than the elapsed
// time.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
