package clienttests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The load during a transfer is 2,000 requests per second in total. Each library sends
// requests to each of the three nodes, with its own retries and without retries. loadPairs is
// the number of these combinations of library, retries and node.
const (
	loadRate    = 2000
	loadWorkers = 4 // per combination of library, retries and node
	loadPairs   = 4 * 3
	loadPause   = time.Second * loadWorkers * loadPairs / loadRate
	loadBetween = 100 // calls of a library between two transfers
	loadRounds  = 6   // number of transfers without strictLoad
	barRounds   = 100 // number of transfers with strictLoad
)

// strictLoad is the environment variable that makes each failed call a failure of the test, and
// increases the number of transfers. It requires an otherwise idle machine.
const strictLoad = "THROTTLED_STRICT_HANDOVER"

// leaderWait is the default of leader-wait, the time for which a node waits for a leader before it replies with an error.
// partingPatience is the time for which a node waits for replies from a former leader before it replies
// with UNCERTAIN. Both times may be too short on a very busy machine.
const (
	leaderWait      = 900 * time.Millisecond
	partingPatience = 100 * time.Millisecond
)

// load is a set of clients that call continuously, and the outcomes of their calls.
type load struct {
	ctx     context.Context // canceled by stop
	stop    context.CancelFunc
	running sync.WaitGroup
	dials   atomic.Int64 // connections that go-redis has opened
	begun   time.Time    // time at which all libraries had begun
	strict  bool         // no call may fail, not even because of a timeout

	mu     sync.Mutex
	calls  map[string]int            // by library
	failed map[string]map[string]int // by library and node, and error
	late   int                       // calls that a node abandoned after its timeout
}

// startLoad starts clients of go-redis and redis-py. They call the ports for all clients until
// load.end.
func startLoad(t *testing.T, c *trio) *load {
	t.Helper()
	l := &load{calls: map[string]int{}, failed: map[string]map[string]int{}, strict: os.Getenv(strictLoad) != ""}
	l.ctx, l.stop = context.WithCancel(t.Context())
	for name, retries := range map[string]int{"go-redis": 0, "go-redis without retries": -1} {
		l.calls[name] = 0
		for _, id := range trioIDs {
			client := redis.NewClient(&redis.Options{
				Addr: c.at(id, portForAll), Password: trioPassword, MaxRetries: retries,
				OnConnect: func(context.Context, *redis.Conn) error { l.dials.Add(1); return nil },
			})
			t.Cleanup(func() { _ = client.Close() }) // no call is in progress
			for range loadWorkers {
				l.running.Go(func() { l.call(name, c.at(id, portForAll), client) })
			}
		}
	}
	l.runRedisPy(t, c, "redis-py", "default")
	l.runRedisPy(t, c, "redis-py without retries", "none")
	l.begun = time.Now()
	return l
}

func (l *load) call(name, node string, client *redis.Client) {
	tick := time.NewTicker(loadPause)
	defer tick.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-tick.C:
		}
		begun := time.Now()
		err := client.Do(context.WithoutCancel(l.ctx), "CL.THROTTLE", "shared", 1_000_000, 1_000_000, hour, 1).Err()
		l.note(name, node, err, time.Since(begun))
	}
}

func (l *load) note(name, node string, err error, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[name]++
	if err != nil {
		l.fail(name, node, err.Error(), took)
	}
}

// The errors that a node returns for calls that it abandons after a timeout.
var (
	noLeader  = regexp.MustCompile(`^(LOADING |BusyLoadingError)`)
	uncertain = regexp.MustCompile(`^(ResponseError: )?UNCERTAIN `)
)

// fail counts a failed call. A call that the node has abandoned after its timeout counts as late,
// unless l.strict is set. l.mu must be held.
func (l *load) fail(name, node, why string, took time.Duration) {
	if !l.strict && (noLeader.MatchString(why) && took >= leaderWait || uncertain.MatchString(why) && took >= partingPatience) {
		l.late++
		return
	}
	who := name + " at " + node
	if l.failed[who] == nil {
		l.failed[who] = map[string]int{}
	}
	l.failed[who][why]++
}

// runRedisPy starts a process with redis-py clients. It returns after each client has made a call.
func (l *load) runRedisPy(t *testing.T, c *trio, name, retries string) {
	t.Helper()
	pause := strconv.FormatFloat(loadPause.Seconds(), 'f', -1, 64)
	args := append([]string{"-W", "error", "testdata/redis_py_load.py", retries, trioPassword, strconv.Itoa(loadWorkers), pause},
		c.all("n1", portForAll)...)
	cmd := exec.Command(tool(t, "/usr/bin/python3", "python3 python3-redis"), args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	in, inErr := cmd.StdinPipe()
	pipe, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(pipe)
	if line, err := out.ReadString('\n'); line != "begun\n" {
		t.Errorf("%s prints %q instead of begun, error: %v", name, line, err)
	}
	l.running.Go(func() {
		<-l.ctx.Done()
		_ = in.Close()
		l.read(t, name, out)
		if err := cmd.Wait(); err != nil || complaints.Len() > 0 {
			t.Errorf("%s exits with error %v, want none, and prints\n%s", name, err, &complaints)
		}
	})
}

// read adds the counts of a redis-py process.
func (l *load) read(t *testing.T, name string, from io.Reader) {
	var got struct {
		Calls  int
		Failed []struct {
			Node, Error string
			Seconds     float64
		}
	}
	if err := json.NewDecoder(from).Decode(&got); err != nil {
		t.Errorf("read the counts of %s: %v", name, err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[name] = got.Calls
	for _, f := range got.Failed {
		l.fail(name, f.Node, f.Error, time.Duration(f.Seconds*float64(time.Second)))
	}
}

// awaitMore waits until each library has made loadBetween more calls.
func (l *load) awaitMore(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	before := maps.Clone(l.calls)
	l.mu.Unlock()
	eventually(t, func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for name, n := range before {
			if l.calls[name] < n+loadBetween {
				return fmt.Errorf("%s has made %d calls, %d of them before the wait", name, l.calls[name], n)
			}
		}
		return nil
	})
}

// end stops the load. It checks that all libraries have made calls, and that no call has
// failed. It ignores failures at the node with the address except. If except is empty, no
// failure is ignored.
func (l *load) end(t *testing.T, except string) {
	t.Helper()
	l.stop()
	took := time.Since(l.begun)
	l.running.Wait()
	total, failed := l.count(except)
	rate := float64(total) / took.Seconds()
	t.Logf("%.0f calls a second; calls by library: %v; %d of %d failed, %d of them after a timeout of a node", rate, l.calls, failed+l.late, total, l.late)
	if len(l.calls) != loadPairs/3 || slices.Min(slices.Collect(maps.Values(l.calls))) <= loadWorkers*len(trioIDs) {
		t.Errorf("too few calls, or not from all libraries: %v", l.calls)
	}
	if l.strict && rate < loadRate*3/4 {
		t.Errorf("only %.0f calls a second: the machine is busy", rate)
	}
	for who, errs := range l.failed {
		for why, n := range errs {
			if except == "" || !strings.HasSuffix(who, except) {
				t.Errorf("%s: %d calls failed, want none: %s", who, n, why)
			}
		}
	}
}

// count returns the number of all calls, and the number of failed calls. It does not count failed
// calls at the node with the address except.
func (l *load) count(except string) (calls, failed int) {
	for _, n := range l.calls {
		calls += n
	}
	for who, errs := range l.failed {
		for _, n := range errs {
			if except == "" || !strings.HasSuffix(who, except) {
				failed += n
			}
		}
	}
	return calls, failed
}

// TestHandOver transfers the leadership while clients call through all nodes, the leader and the
// followers. No call may fail, even without retries, and no connection may be closed.
func TestHandOver(t *testing.T) {
	c := startTrio(t, patientBeat)
	l := startLoad(t, c)
	rounds := loadRounds
	if l.strict {
		rounds = barRounds
	}
	for range rounds {
		l.awaitMore(t)
		c.transfer(t, c.followers(t)[0])
	}
	l.awaitMore(t)
	l.end(t, "")
	if n := l.dials.Load(); n > 2*loadWorkers*int64(len(trioIDs)) {
		t.Errorf("go-redis has opened %d connections, want at most %d, one for each worker", n, 2*loadWorkers*len(trioIDs))
	}
}

// TestHandOver_Stopped stops the leader while clients call through all nodes. No call
// through the other nodes may fail.
func TestHandOver_Stopped(t *testing.T) {
	c := startTrio(t, patientBeat)
	l := startLoad(t, c)
	l.awaitMore(t)
	leader := c.awaitLeader(t)
	c.stop(t, leader)
	l.awaitMore(t)
	l.end(t, c.at(leader, portForAll))
}
