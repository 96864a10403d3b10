package loadgen

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Load is a load on one server.
type Load struct {
	Addr     string          // IPv4 address and port of the server
	Protocol func() Protocol // returns the protocol of a new connection
	Conns    int
	Streams  int     // concurrent requests of a connection; 1 for HTTP
	Keys     int     // requests have random keys below this number
	Rate     float64 // requests per second of an open loop; 0 for a closed loop
	Warmup   time.Duration
	Duration time.Duration // without the warm-up
	Requests int64         // end after this number of replies, without the warm-up; 0 means no limit
}

// Result holds the figures of a load, without its warm-up.
type Result struct {
	Admitted, Refused, Failed int64
	Failure                   string // text of the first failure
	Elapsed                   time.Duration
	Latency                   *hdrhistogram.Histogram // nanoseconds
	Late                      time.Duration           // open loop: longest delay of the generator itself
	CPU                       time.Duration           // CPU time of the generator, including the warm-up
}

// PerSecond returns the decisions per second: requests that were admitted or refused.
func (r *Result) PerSecond() float64 {
	return float64(r.Admitted+r.Refused) / r.Elapsed.Seconds()
}

// Percentile returns a percentile of the latencies in milliseconds.
func (r *Result) Percentile(p float64) float64 {
	return float64(r.Latency.ValueAtPercentile(p)) / float64(time.Millisecond)
}

const (
	longest = time.Minute      // maximum of the histogram
	silence = 10 * time.Second // a server that sends nothing for this long is an error
)

// Errors of connections.
var (
	errClosed = errors.New("the server has closed a connection")
	errSilent = fmt.Errorf("the server has sent nothing for %v", silence)
)

// Run runs a load. An error means that the load was interrupted: a connection was closed or unusable, or the server did
// not answer. Failed requests are not errors; they are counted.
func Run(load Load) (_ *Result, err error) {
	r := &runner{load: load, closedLoop: load.Rate == 0, keys: rand.New(rand.NewPCG(1, 2))}
	r.result.Latency = hdrhistogram.New(1, int64(longest), 3)
	defer r.close()
	if err := r.connect(); err != nil {
		return nil, err
	}
	release := ownThread()
	err = r.run()
	r.result.CPU = release()
	return &r.result, err
}
