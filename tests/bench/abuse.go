package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// abuse is a kind of hostile or careless use of the server. The row is its number, which docs/security.md uses too.
type abuse struct {
	row, name string
	run       func(a *abuser) error
}

// abuses lists the rows of make abuse.
var abuses = []abuse{
	{"F68", "9,900 idle connections", (*abuser).idleClients},
	{"F69", "5,000 connections per second", (*abuser).churn},
	{"F70", "500 connections, 256 open files", (*abuser).fewFiles},
	{"F71", "2,000 clients that send a byte per second", (*abuser).slowWriters},
	{"F72", "100 clients that do not read", (*abuser).neverReaders},
	{"F73", "100 clients that neither read nor log in", (*abuser).strangersThatNeverRead},
	{"F74", "a pipeline of 1,000,000 commands", (*abuser).deepPipeline},
	{"F76", "10,000 clients reconnect after a failover", (*abuser).herd},
	{"F77", "20 million new keys", (*abuser).keyFlood},
	{"F78", "20 million new keys to evict exhausted ones", (*abuser).evictionFlood},
	{"F79", "1,000,000 keys with colliding hashes", (*abuser).collidingKeys},
	{"F80", "one hot key", (*abuser).oneHotKey},
	{"F81", "5 million keys expire in the same second", (*abuser).expiryTogether},
	{"F82", "1,000 silent handshakes per second", (*abuser).silentHandshakes},
	{"F83", "certificates: renewal, and those to refuse", (*abuser).certificates},
	{"F84", "64 connections that guess passwords", (*abuser).guesses},
	{"F85", "the HTTP port", (*abuser).httpPort},
	{"F86", "the Raft port", (*abuser).raftPort},
}

// The load of other clients beside an abuse, and the rounds of a comparison.
const (
	loadKeys    = 100_000
	loadPerSec  = 5_000 // requests per second
	loadTime    = 2 * time.Second
	abuseRounds = 3
	abuseP99    = 2.0 // bar: ratio of p99 beside an abuse to p99 without it
)

// abuser runs the rows. Attackers are threads of this process. They have the policy SCHED_IDLE, since attackers are on
// other machines: they have the least share of the processors, but some kernels interrupt them only at a tick. Rows that
// need a rate of attacks check it.
type abuser struct {
	settings
	*board
	server  string   // the binary
	wrapper []string // command that sets the priority of servers
	binary  []string // the binary, as the argument of wrapper
	load    generator
}

// Commands that run servers with the normal scheduling policy, not with that of attackers, and the load generator with a
// real-time priority: the servers do not delay it, since it measures them. With realTimeServer, no other program on the
// machine delays the servers either.
var (
	normalPolicy      = []string{"chrt", "--other", "0"}
	realTimeServer    = []string{"chrt", "-r", "10"}
	realTimeGenerator = []string{"chrt", "-r", "20"}
)

// endureAbuse runs the rows that the flag -rows selects, by default all.
func endureAbuse(s settings, b *board) error {
	if err := setPolicy(unix.SCHED_IDLE); err != nil {
		return err
	}
	err := withPrograms(func(server string, g generator) error {
		g.wrapper = realTimeGenerator
		wrapper := normalPolicy
		if s.realTime {
			wrapper = realTimeServer
		}
		a := &abuser{settings: s, board: b, server: server, load: g, wrapper: wrapper, binary: append(slices.Clone(wrapper), server)}
		return a.runRows()
	})
	b.prefix = ""
	return errors.Join(err, setPolicy(unix.SCHED_NORMAL))
}

// withNormalPolicy runs f with the normal scheduling policy of this process instead of that of attackers.
func withNormalPolicy(f func() error) error {
	if err := setPolicy(unix.SCHED_NORMAL); err != nil {
		return err
	}
	return errors.Join(f(), setPolicy(unix.SCHED_IDLE))
}

func (a *abuser) runRows() error {
	known := false
	for _, row := range abuses {
		if !a.selects(row.row) {
			continue
		}
		known = true
		a.prefix = row.row + " "
		begin := time.Now()
		if err := row.run(a); err != nil {
			return fmt.Errorf("%s, %s: %w", row.row, row.name, err)
		}
		a.note("(%s) took %.0f s", row.name, time.Since(begin).Seconds())
	}
	if !known {
		return fmt.Errorf("there is no row %q", a.rows)
	}
	return nil
}

// start starts the built server.
func (a *abuser) start(args ...string) (*process, error) { return startBuilt(a.binary, args...) }

// others measures the latencies of other clients of a server.
func (a *abuser) others(v *victim, lasting time.Duration) (latencies, error) {
	return a.load.openLoop(v.target(), v.perSec, lasting, "-keys", strconv.Itoa(loadKeys), "-key-size", "16", "-prefix", "m:", "-limit", roomy)
}

// beside compares p99 of other clients beside an attack with p99 without it. Each attack begins after the other clients have
// connected, and continues until its argument is closed.
func (a *abuser) beside(v *victim, bar float64, attack func(stop <-chan struct{}) error) error {
	return a.compare(v, bar, func() (latencies, error) { return a.during(v, attack) })
}

// compare compares p99 of other clients as attacked returns it with p99 without an attack. The rounds alternate.
func (a *abuser) compare(v *victim, bar float64, attacked func() (latencies, error)) error {
	var alone, beside []latencies
	var calm, spent processorTime
	for range abuseRounds {
		l, err := calm.during(v.pid(), func() (latencies, error) { return a.others(v, loadTime) })
		if err != nil {
			return err
		}
		alone = append(alone, l)
		if l, err = spent.during(v.pid(), attacked); err != nil {
			return err
		}
		beside = append(beside, l)
	}
	a.note("processors in use beside the attack: %.2f by the server, %.2f by the attackers", spent.server/spent.lasting, spent.self/spent.lasting)
	a.note("a thread of the server that can run gets a processor after %.0f us on average, beside the attack %.0f us; a request is sent late by at most %.1f ms, %.1f ms", calm.delay.micros(), spent.delay.micros(), middle(alone).late, middle(beside).late)
	before, during := middle(alone).p99, middle(beside).p99
	a.note("others: p99 %.3f ms, beside the attack %.3f ms (medians of %d); longest %.1f ms, %.1f ms", before, during, abuseRounds, middle(alone).max, middle(beside).max)
	a.atMost("p99 of others, beside the attack to alone", during/before, bar, "x")
	return nil
}

// processorTime is the time of processors that was used during measurements, in seconds. The process itself runs the
// attackers.
type processorTime struct {
	lasting, server, self float64
	delay                 runDelay // of the server
}

// during calls measure, and adds the time that was used meanwhile.
func (t *processorTime) during(server int, measure func() (latencies, error)) (latencies, error) {
	begin := time.Now()
	before, delaysErr := threadDelaysOf(server)
	err := t.add(server, -1)
	l, measureErr := measure()
	t.lasting += time.Since(begin).Seconds()
	after, laterErr := threadDelaysOf(server)
	t.delay.add(after.since(before))
	return l, errors.Join(delaysErr, err, measureErr, laterErr, t.add(server, 1))
}

// add adds the time since the start of both processes, multiplied by sign.
func (t *processorTime) add(server int, sign float64) error {
	used, err := cpuSeconds(server)
	own, ownErr := cpuSeconds(os.Getpid())
	t.server += sign * used
	t.self += sign * own
	return errors.Join(err, ownErr)
}

// during measures the latencies of other clients during an attack.
func (a *abuser) during(v *victim, attack func(stop <-chan struct{}) error) (l latencies, err error) {
	await, err := v.arrivals()
	if err != nil {
		return l, err
	}
	measured := make(chan error, 1)
	go func() {
		var err error
		l, err = a.others(v, loadTime)
		measured <- err
	}()
	if err := await(loadConns); err != nil {
		return l, errors.Join(err, <-measured)
	}
	stop, attacked := make(chan struct{}), make(chan error, 1)
	go func() { attacked <- attack(stop) }()
	err = <-measured
	close(stop)
	return l, errors.Join(err, <-attacked)
}
