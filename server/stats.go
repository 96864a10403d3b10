package server

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/throttledhq/throttled/internal/histogram"
)

// stats holds the counters of the server. Only CONFIG RESETSTAT resets them.
type stats struct {
	connections    atomic.Int64 // accepted
	rejected       atomic.Int64 // refused after accept
	displaced      atomic.Int64 // newcomers closed to make room for other connections
	netIn, netOut  atomic.Int64 // bytes
	reads, writes  atomic.Int64 // system calls
	protocolErrors atomic.Int64
	timeouts       atomic.Int64 // connections closed by the reaper
	panics         atomic.Int64
	overloaded     atomic.Int64 // limiter commands refused because of overload-target

	commands []commandStats // by command id

	mu     sync.Mutex
	errors map[string]int64 // number of error replies, by error code

	rates rates
}

// commandStats counts the runs of one command.
type commandStats struct {
	calls    atomic.Int64
	rejected atomic.Int64 // refused before running
	failed   atomic.Int64 // failed while running
	admitted atomic.Int64 // decided by this node and not limited; limiter commands only
	limited  atomic.Int64 // decided by this node and limited; limiter commands only
	times    histogram.Histogram
}

func (s *stats) init(commands int) {
	s.commands = make([]commandStats, commands)
	s.errors = map[string]int64{}
}

func (s *stats) of(cmd *command) *commandStats { return &s.commands[cmd.id] }

// add adds n runs. took is their total duration.
func (cs *commandStats) add(n int, took time.Duration) {
	cs.calls.Add(int64(n))
	cs.times.AddDurations(took, n)
}

// limited returns the number of limiter commands that were decided and limited.
func (s *stats) limited() (n int64) {
	for i := range s.commands {
		n += s.commands[i].limited.Load()
	}
	return n
}

const maxErrorCodes = 128 // a safety limit, not expected to be reached: clients cannot create codes

func (s *stats) countError(code string) { s.countErrors(code, 1) }

func (s *stats) countErrors(code string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.errors[code]; known || len(s.errors) < maxErrorCodes {
		s.errors[code] += n
	}
}

// countOverloaded counts n commands that were refused because of an overload.
func (s *stats) countOverloaded(cmd *command, n int64) {
	s.of(cmd).rejected.Add(n)
	s.overloaded.Add(n)
	s.countErrors(errOverloaded.code(), n)
}

// errorCounts returns a copy of the counts by code.
func (s *stats) errorCounts() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[string]int64, len(s.errors))
	for code, n := range s.errors {
		counts[code] = n
	}
	return counts
}

// processed returns the number of commands that have run.
func (s *stats) processed() (n int64) {
	for i := range s.commands {
		n += s.commands[i].calls.Load()
	}
	return n
}

// reset sets the counters to zero, as CONFIG RESETSTAT does.
func (s *stats) reset() {
	for _, counter := range []*atomic.Int64{
		&s.connections, &s.rejected, &s.displaced, &s.netIn, &s.netOut, &s.reads, &s.writes,
		&s.protocolErrors, &s.timeouts, &s.panics, &s.overloaded,
	} {
		counter.Store(0)
	}
	for i := range s.commands {
		cs := &s.commands[i]
		for _, counter := range []*atomic.Int64{&cs.calls, &cs.rejected, &cs.failed, &cs.admitted, &cs.limited} {
			counter.Store(0)
		}
		cs.times.Reset()
	}
	s.mu.Lock()
	s.errors = map[string]int64{}
	s.mu.Unlock()
	s.rates.reset()
}

// rates computes the per-second figures of INFO from the last rateSamples samples. The reaper takes a sample at each
// tick.
type rates struct {
	mu      sync.Mutex
	samples [rateSamples]rateSample
	next    int
}

const rateSamples = 16

type rateSample struct {
	at                time.Duration
	commands, in, out int64
}

func (r *rates) reset() {
	r.mu.Lock()
	r.samples = [rateSamples]rateSample{}
	r.mu.Unlock()
}

// sample stores the current counters in place of the oldest sample.
func (r *rates) sample(now rateSample) {
	r.mu.Lock()
	r.samples[r.next] = now
	r.next = (r.next + 1) % rateSamples
	r.mu.Unlock()
}

// perSecond returns the rates between the oldest and the newest sample.
func (r *rates) perSecond() (commands, in, out float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	oldest := r.samples[r.next]
	newest := r.samples[(r.next+rateSamples-1)%rateSamples]
	span := (newest.at - oldest.at).Seconds()
	if span <= 0 || newest.commands < oldest.commands {
		return 0, 0, 0
	}
	return float64(newest.commands-oldest.commands) / span,
		float64(newest.in-oldest.in) / span,
		float64(newest.out-oldest.out) / span
}

// newRunID returns 40 random hexadecimal digits that identify a run of the program in INFO.
func newRunID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
