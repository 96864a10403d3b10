package gatewaystests

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// load sends requests at a constant rate, independent of the time of the responses. With the rate 0, each connection
// sends its next request when it has the response to the last one.
type load struct {
	answered  atomic.Int64
	failures  []string // the first requests that were not answered with 200, and the reasons
	failed    int
	latencies []time.Duration // from the planned time of each request to its response
}

// send sends GET requests to an address until the context is done, on up to a number of connections.
func (l *load) send(ctx context.Context, address string, rate, connections int) {
	transport := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections}
	transport.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(newClient(address).address)}}).DialContext
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	planned := make(chan time.Time, 60*rate) // requests for which no connection is free wait
	var group sync.WaitGroup
	var mu sync.Mutex
	for range connections {
		group.Go(func() {
			for at := range planned {
				err := visit(client, "http://"+address+"/rolling")
				took := time.Since(at)
				mu.Lock()
				l.add(took, err)
				mu.Unlock()
			}
		})
	}
	schedule(ctx, planned, rate)
	group.Wait()
}

// schedule sends the times at which requests are planned until the context is done.
func schedule(ctx context.Context, planned chan<- time.Time, rate int) {
	defer close(planned)
	for rate == 0 {
		select {
		case <-ctx.Done():
			return
		case planned <- time.Now():
		}
	}
	begin, n := time.Now(), 0
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for ; float64(n) <= now.Sub(begin).Seconds()*float64(rate); n++ {
				planned <- begin.Add(time.Duration(n) * time.Second / time.Duration(rate))
			}
		}
	}
}

func visit(client *http.Client, url string) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it has been read
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return err
}

func (l *load) add(took time.Duration, err error) {
	l.answered.Add(1)
	l.latencies = append(l.latencies, took)
	if err == nil {
		return
	}
	l.failed++
	if len(l.failures) < 5 {
		l.failures = append(l.failures, err.Error())
	}
}

// percentile returns a latency that the given fraction of the requests does not exceed.
func (l *load) percentile(fraction float64) time.Duration {
	if len(l.latencies) == 0 {
		return 0
	}
	slices.Sort(l.latencies)
	return l.latencies[min(len(l.latencies)-1, int(fraction*float64(len(l.latencies))))]
}
