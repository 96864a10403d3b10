package clienttests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// outage is the effect of a fault on a client.
type outage struct {
	calls    int
	repeated int              // calls that the library failed and the program repeated
	errors   []map[string]int // of each caller, by text
	gap      time.Duration    // longest time without a successful call
	hangs    bool             // no call succeeded at the end, or the process had to be killed
}

// failures returns the failed calls of all callers, and those of the caller that has the most. Calls whose error the function
// excuses do not count.
func (o outage) failures(excused func(text string) bool) (sum, most int) {
	for _, errors := range o.errors {
		own := 0
		for text, n := range errors {
			if !excused(text) {
				own += n
			}
		}
		sum, most = sum+own, max(most, own)
	}
	return sum, most
}

func excuseNone(string) bool { return false }

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
		return hung(err)
	}
	if err := r.end(); err != nil {
		return hung(err)
	}
	if len(v.Errors) != callers {
		return hung(fmt.Errorf("the driver reports the errors of %d callers, want %d", len(v.Errors), callers))
	}
	return outage{calls: v.Calls, repeated: v.Repeated, errors: v.Errors, gap: time.Duration(v.GapMS * float64(time.Millisecond)), hangs: v.LastMS > recoveryMS}
}

func hung(err error) outage { return outage{hangs: true, errors: []map[string]int{{err.Error(): 1}}} }

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

// judge checks the effect of a fault on a client. No call of a cluster client may fail, at most one call of each caller of
// other clients, and no call in a hand-over on the plain port. Without -matrix-strict, the errors of a busy machine are excused,
// and a second one after the loss of the leader.
func (m *matrix) judge(t *testing.T, s subject, f fault) {
	t.Helper()
	o := m.faults[s.name][s.mode+" "+f.name]
	failed, most := o.failures(excuseNone)
	t.Logf("%s, %s: %d of %d calls failed, %d of one caller, %d repeated by the program, gap %v, errors %v",
		s, f.name, failed, o.calls, most, o.repeated, o.gap.Round(time.Millisecond), o.errors)
	if o.hangs {
		t.Errorf("%s, %s: the client makes no successful calls after the fault: %v", s, f.name, o.errors)
	}
	if o.repeated > 0 && !slices.Contains(s.repeats, s.mode) {
		t.Errorf("%s, %s: the program repeats %d calls, but the table of drivers does not list the mode", s, f.name, o.repeated)
	}
	excused := excuseNone
	if !*matrixStrict {
		excused = abandoned.MatchString
	}
	bar := barOf(s.mode, f, *matrixStrict)
	if _, most := o.failures(excused); most > bar {
		t.Errorf("%s, %s: %d calls of one caller failed, want at most %d: %v", s, f.name, most, bar, o.errors)
	}
}

// barOf returns the number of calls of one caller that may fail. On a busy machine, the loss of the leader lasts longer, so that
// a second call can fail.
func barOf(mode string, f fault, strict bool) int {
	switch {
	case mode == modeCluster, mode == modePlain && f.name == "hand-over":
		return 0
	case f.name == "kill" && !strict:
		return 2
	}
	return 1
}
