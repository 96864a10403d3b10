package clienttests

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// failoverLimit is the limit of the key that all clients share. It is not exhausted before the end of
// the test.
const failoverLimit = 100_000

// chargeTick is the interval at which a client charges 1.
const chargeTick = 10 * time.Millisecond

// callPatience is the timeout of a call, as set by an application. Some libraries would wait
// indefinitely for an unreachable node.
const callPatience = 5 * time.Second

// replyWithin is the longest permitted time from the end of an incident to the next reply to a
// client. It allows for a busy machine.
const replyWithin = time.Minute

// ledger records the replies of many clients on one key with one limit. The twice field lists the
// remaining counts that two admitted calls have returned.
type ledger struct {
	mu                sync.Mutex
	incident          time.Time        // end of the latest incident
	clientByRemaining map[int64]string // by remaining count, the client whose admitted call returned it
	twice             []string
	admitted          int
	answered          map[string]answers        // by client; replies to calls that began after the incident
	failed            map[string]map[string]int // by client and error; calls that failed during or after the incident
}

type answers struct {
	n     int
	first time.Time
}

// note records the outcome of a call.
func (l *ledger) note(who string, began time.Time, d decision, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if l.failed[who] == nil {
			l.failed[who] = map[string]int{}
		}
		l.failed[who][err.Error()]++
		return
	}
	if a := l.answered[who]; began.After(l.incident) {
		if a.n++; a.n == 1 {
			a.first = time.Now()
		}
		l.answered[who] = a
	}
	if d.limited() {
		return
	}
	l.admitted++
	if other, is := l.clientByRemaining[d.remaining()]; is {
		l.twice = append(l.twice, fmt.Sprintf("%s and %s both have %d remaining", other, who, d.remaining()))
	}
	l.clientByRemaining[d.remaining()] = who
}

// during runs the function act, which is an incident. It clears the recorded errors before the
// incident, and the recorded replies after it.
func (l *ledger) during(act func()) {
	l.mu.Lock()
	clear(l.failed)
	l.mu.Unlock()
	act()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.incident = time.Now()
	clear(l.answered)
}

// results returns the number of replies to a client since the incident, the time from the incident to
// the first of them, and the errors of the client.
func (l *ledger) results(who string) (n int, after time.Duration, failed map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.answered[who]
	return a.n, a.first.Sub(l.incident), maps.Clone(l.failed[who])
}

// failover is a cluster under the load of many clients.
type failover struct {
	*trio
	ledger
	calls map[string]func(ctx context.Context, quantity int) (decision, error)
	homes map[string]string // node of each client that is configured with a single node
}

// TestFailover checks that clients of all kinds continue, without being reopened, when the leader
// is killed, stopped or restarted, and when the leadership is transferred. Each remaining count
// must be returned to one client only, and the admitted units must not exceed the limit.
func TestFailover(t *testing.T) {
	f := openFailover(t)
	ctx, cancel := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	for who := range f.calls {
		calling.Go(func() { f.chargeLoop(ctx, who) })
	}
	n := f.incidents(t)
	cancel()
	calling.Wait()
	f.checkTotals(t, n*len(f.calls))
}

// openFailover opens a client for each route. For a route to a single node, it opens one
// client to a follower and one to the leader.
func openFailover(t *testing.T) *failover {
	t.Helper()
	f := &failover{trio: startTrio(t, usualBeat), calls: map[string]func(context.Context, int) (decision, error){}, homes: map[string]string{}}
	f.clientByRemaining, f.failed, f.answered = map[int64]string{}, map[string]map[string]int{}, map[string]answers{}
	follower, leader := f.followers(t)[0], f.awaitLeader(t)
	for _, r := range routes {
		f.open(t, r.name, r, follower)
		if r.single {
			f.open(t, r.name+", that of the leader", r, leader)
		}
	}
	return f
}

func (f *failover) open(t *testing.T, who string, r route, near string) {
	t.Helper()
	if r.single {
		f.homes[who] = near
	}
	do := r.open(t, f.trio, near)
	f.calls[who] = func(ctx context.Context, quantity int) (decision, error) {
		ctx, cancel := context.WithTimeout(ctx, callPatience)
		defer cancel()
		return numbers(do(ctx, "CL.THROTTLE", "shared", strconv.Itoa(failoverLimit-1), "1", hour, strconv.Itoa(quantity)))
	}
}

// chargeLoop charges 1 repeatedly until ctx is done, and completes a call in progress.
func (f *failover) chargeLoop(ctx context.Context, who string) {
	tick := time.NewTicker(chargeTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		d, err := f.calls[who](context.WithoutCancel(ctx), 1)
		f.note(who, began, d, err)
	}
}

// The permitted errors of calls.
//
//   - During a leadership transfer, calls in flight may fail if Sentinel has directed the
//     client to the leader and the library does not retry them. Other clients have no
//     errors.
//   - While a node is stopped, calls may also fail because it is unreachable. redis-py 4.3
//     returns an IndexError if it finds no leader, and MasterNotFoundError while Sentinel flags
//     the leader as down: on a busy machine, that may be before the new leader is announced.
//   - After a kill, no node answers calls until a new leader is elected, and the outcome of
//     some calls is uncertain.
var (
	lostCall  = regexp.MustCompile(`EOF|reset by peer|closed|broken pipe|I/O error`)
	awayCall  = regexp.MustCompile(lostCall.String() + `|refused|deadline exceeded|signal: killed|Timeout|IndexError|MasterNotFoundError`)
	brokeCall = regexp.MustCompile(awayCall.String() + `|(?i:loading)|CLUSTERDOWN|UNCERTAIN`)
)

const handedOver = "the leadership is transferred back"

// incidents runs the incidents in order. It returns their number, including unplanned elections on
// a busy machine.
func (f *failover) incidents(t *testing.T) (n int) {
	first := f.awaitLeader(t)
	for _, step := range []struct {
		name   string
		act    func()
		errors *regexp.Regexp // permitted errors of calls; nil: none
		terms  int            // number of terms that begin during the step
	}{
		{"no incident", func() {}, nil, 0},
		{"the leader is killed", func() { f.kill(t, first) }, brokeCall, 1},
		{"the killed node is restarted", func() { f.restart(t, first) }, lostCall, 0},
		{handedOver, func() { f.transfer(t, first) }, lostCall, 1},
		{"the leader is stopped", func() { f.stop(t, first) }, awayCall, 1},
		{"the stopped node is restarted", func() { f.restart(t, first) }, lostCall, 0},
	} {
		before := f.term(t)
		f.during(step.act)
		t.Run(step.name, func(t *testing.T) {
			for _, who := range slices.Sorted(maps.Keys(f.calls)) {
				f.awaitReplies(t, who)
			}
			may := step.errors
			if began := f.term(t) - before; began > step.terms {
				t.Logf("the machine is busy: %d terms have begun", began)
				may = brokeCall
				n += began - step.terms
			}
			for _, who := range slices.Sorted(maps.Keys(f.calls)) {
				f.checkErrors(t, step.name, who, may, first)
			}
		})
		n++
	}
	return n
}

// term waits until there is a leader, and returns the current term.
func (f *failover) term(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(f.nodes[f.awaitLeader(t)].info(t, "raft_term"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitReplies waits until a client gets replies again. It returns immediately if the client
// knows only one node and that node is down.
func (f *failover) awaitReplies(t *testing.T, who string) {
	t.Helper()
	if home := f.homes[who]; home != "" && f.nodes[home] == nil {
		return
	}
	eventually(t, func(context.Context) error {
		if n, _, failed := f.results(who); n < 5 {
			return fmt.Errorf("%s has %d replies, and errors %v", who, n, failed)
		}
		return nil
	})
	_, after, failed := f.results(who)
	t.Logf("%s: first reply after %v; errors: %v", who, after.Round(time.Millisecond), failed)
	if after > replyWithin {
		t.Errorf("%s: the first reply after the incident took %v, want at most a minute", who, after)
	}
}

// checkErrors checks that a client had only errors that a step permits.
func (f *failover) checkErrors(t *testing.T, step, who string, may *regexp.Regexp, killed string) {
	t.Helper()
	if step == handedOver && may != brokeCall && !strings.HasSuffix(who, "sentinel") {
		may = nil
	}
	if may != nil && f.homes[who] == killed {
		may = brokeCall
	}
	_, _, failed := f.results(who)
	for text, n := range failed {
		if may == nil || !may.MatchString(text) {
			t.Errorf("%s: %d calls fail with an error that the step does not permit: %s", who, n, text)
		}
	}
}

// checkTotals checks the totals after all clients have stopped. For each incident, each client
// may have lost one call that was charged but not answered. checkTotals then charges the
// remaining units in one call, and checks that all clients are refused.
func (f *failover) checkTotals(t *testing.T, mayBeLost int) {
	t.Helper()
	for _, twice := range f.twice {
		t.Error(twice)
	}
	leader := f.calls["go-redis, cluster"]
	d, err := leader(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	taken := failoverLimit - int(d.remaining())
	if f.admitted > taken || f.admitted < taken-mayBeLost || f.admitted == 0 {
		t.Errorf("the clients have received %d admissions, and %d units were charged; want equal numbers, apart from lost replies", f.admitted, taken)
	}
	if d, err := leader(t.Context(), int(d.remaining())); err != nil || d.limited() {
		t.Fatalf("charge of the remaining units: got %v, error %v; want an admission", d, err)
	}
	for who, call := range f.calls {
		if d, err := call(t.Context(), 1); err != nil || !d.limited() || d.remaining() != 0 {
			t.Errorf("%s: got %v, error %v; want a refusal", who, d, err)
		}
	}
}
