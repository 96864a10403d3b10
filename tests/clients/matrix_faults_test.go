package clienttests

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// outage is the effect of a fault on a client.
type outage struct {
	calls, failed, callers int
	gap                    time.Duration // longest time without a successful call
	hangs                  bool          // no call succeeded at the end, or the process had to be killed
	errors                 map[string]int
}

// fault is an event in a cluster.
type fault struct {
	name   string
	inject func(t *testing.T, c *trio, leader string)
	repair func(t *testing.T, c *trio, leader string)
	window time.Duration // time of the load after the fault
}

var faults = []fault{
	{
		name:   "kill",
		inject: func(t *testing.T, c *trio, leader string) { t.Helper(); c.kill(t, leader) },
		repair: func(t *testing.T, c *trio, leader string) { t.Helper(); c.restart(t, leader) },
		window: 4 * time.Second,
	},
	{
		name: "hand-over",
		inject: func(t *testing.T, c *trio, leader string) {
			t.Helper()
			c.transfer(t, otherThan(leader))
		},
		repair: func(*testing.T, *trio, string) {},
		window: 2 * time.Second,
	},
}

// otherThan returns a node other than the given one.
func otherThan(id string) string {
	if id == trioIDs[0] {
		return trioIDs[1]
	}
	return trioIDs[0]
}

// defaultBeat is the default heartbeat. It needs an otherwise idle machine.
const defaultBeat = "250"

// heartbeat returns the heartbeat of the cluster.
func heartbeat() string {
	if *matrixStrict {
		return defaultBeat
	}
	return usualBeat
}

// batchSize returns the number of clients that call during the same fault. With more clients the gaps are longer, because the
// clients compete for the processor.
func batchSize() int {
	if *matrixStrict {
		return 4
	}
	return 6
}

// survive injects a fault while some clients make calls, and records the effect on each.
func (m *matrix) survive(t *testing.T, c *trio, f fault, batch []subject) {
	t.Helper()
	until := filepath.Join(t.TempDir(), "until")
	leader := c.awaitLeader(t)
	runs := make([]*driverRun, len(batch))
	for i, s := range batch {
		args := append(target(s.mode, s.String(), trioPassword, s.placeIn(t, c, "").plain...), "--check", "load", "--until", until, "--callers", strconv.Itoa(s.callers))
		runs[i] = s.begin(t, patience, args...)
	}
	for i, r := range runs {
		if v, err := r.nextWithin(beginTimeout); err != nil || v.Event != "begun" {
			t.Errorf("%s: got %+v, error %v; want the event begun", batch[i], v, err)
		}
	}
	f.inject(t, c, leader)
	<-time.After(f.window) // the load is measured for this time
	if err := os.WriteFile(until, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, r := range runs {
		m.record(batch[i], f, r.outage(batch[i].callers))
		m.judge(t, batch[i], f)
	}
	f.repair(t, c, leader)
}

// recoveryMS is the time before the end of the load, in milliseconds, in which a client must have a successful call.
const recoveryMS = 1000

// beginTimeout is the time in which a client must make the first 100 calls, and hangTimeout the time after the end of the load
// in which a driver must write its counts.
const (
	beginTimeout = 30 * time.Second
	hangTimeout  = 15 * time.Second
)

// outage waits for the counts of the load.
func (r *driverRun) outage(callers int) outage {
	v, err := r.nextWithin(hangTimeout)
	if err != nil {
		return outage{callers: callers, hangs: true, errors: map[string]int{err.Error(): 1}}
	}
	o := outage{calls: v.Calls, failed: v.Failed, callers: callers, gap: time.Duration(v.GapMS * float64(time.Millisecond)), errors: v.Errors}
	o.hangs = v.LastMS > recoveryMS
	if err := r.end(); err != nil {
		o.errors = map[string]int{err.Error(): 1}
		o.hangs = true
	}
	return o
}

func (m *matrix) record(s subject, f fault, o outage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.faults[s.name] == nil {
		m.faults[s.name] = map[string]outage{}
	}
	m.faults[s.name][s.mode+" "+f.name] = o
}

// abandoned matches the errors with which a node answers after its timeout. They can occur at any time on a busy machine.
var abandoned = regexp.MustCompile(`(?i)loading|clusterdown|uncertain`)

// judge checks the effect of a fault on a client. With -matrix-strict, no call of a cluster client may fail, at most
// one call per caller of other clients, and no call in a hand-over on the plain port.
func (m *matrix) judge(t *testing.T, s subject, f fault) {
	t.Helper()
	o := m.faults[s.name][s.mode+" "+f.name]
	t.Logf("%s, %s: %d of %d calls failed, gap %v, errors %v", s, f.name, o.failed, o.calls, o.gap.Round(time.Millisecond), o.errors)
	if o.hangs {
		t.Errorf("%s, %s: the client makes no successful calls after the fault: %v", s, f.name, o.errors)
	}
	bar := o.callers
	if s.mode == modeCluster || s.mode == modePlain && f.name == "hand-over" {
		bar = 0
	}
	failed := o.failed
	if !*matrixStrict {
		for text, n := range o.errors {
			if abandoned.MatchString(text) {
				failed -= n
			}
		}
	}
	if failed > bar {
		t.Errorf("%s, %s: %d calls failed, want at most %d: %v", s, f.name, failed, bar, o.errors)
	}
}
