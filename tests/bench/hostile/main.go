// Command hostile sends malformed and hostile requests to an HTTP and a gRPC server for a given time: request
// smuggling, oversized and slow requests, path tricks, malformed JSON, and attacks on HTTP/2 such as rapid resets. It
// sends the requests of its table in a loop, at a fixed rate, and holds slow connections meanwhile. It prints the
// number of reactions of the server by kind, as JSON.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

type settings struct {
	http, grpc string
	lasting    time.Duration
	rate       float64
	workers    int
	slow       int
}

func main() {
	var s settings
	flag.StringVar(&s.http, "http", "", "host:port of the HTTP server")
	flag.StringVar(&s.grpc, "grpc", "", "host:port of the gRPC server")
	flag.DurationVar(&s.lasting, "for", 10*time.Second, "duration")
	flag.Float64Var(&s.rate, "rate", 300, "requests per second")
	flag.IntVar(&s.workers, "workers", 32, "connections in use at most, besides the slow ones")
	flag.IntVar(&s.slow, "slow", 100, "connections that send one byte at a time, to each server")
	flag.Parse()
	if err := json.NewEncoder(os.Stdout).Encode(run(s)); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

// run sends the attacks until the time is over. It returns the number of reactions by kind.
func run(s settings) map[string]int {
	t := &tally{counts: map[string]int{}}
	end := time.Now().Add(s.lasting)
	var running sync.WaitGroup
	for i := range s.slow {
		running.Go(func() { holdSlowly(s, slowAttacks[i%len(slowAttacks)], end, t) })
	}
	list := attacks()
	var next atomic.Int64
	start := time.Now()
	for range s.workers {
		running.Go(func() {
			for {
				n := next.Add(1) - 1
				due := start.Add(time.Duration(float64(n) / s.rate * float64(time.Second)))
				if due.After(end) {
					return
				}
				time.Sleep(time.Until(due)) // the schedule of the attacks
				t.add(list[int(n)%len(list)].send(s))
			}
		})
	}
	running.Wait()
	return t.counts
}

// tally counts reactions by kind.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(reaction string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[reaction]++
}
