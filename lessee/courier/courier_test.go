package courier

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/lessee"
	"github.com/throttledhq/throttled/limiter"
)

// fakeConn is an authority that grants all units.
type fakeConn struct {
	mu       sync.Mutex
	commands []string
	draws    int
	granted  int
	answer   func(command []string) (any, error) // nil: grants
}

func (f *fakeConn) Do(_ context.Context, commands [][]string) (replies []any, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range commands {
		f.commands = append(f.commands, strings.Join(c, " "))
		reply, err := f.grant(c)
		if err != nil {
			return replies, err
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

func (f *fakeConn) grant(c []string) (any, error) {
	switch {
	case f.answer != nil:
		return f.answer(c)
	case c[0] == "CL.LEASE.RETURN":
		return int64(1), nil
	}
	units, err := strconv.Atoi(c[1])
	if err != nil {
		return nil, err
	}
	f.draws++
	f.granted += units
	id := fmt.Sprintf("%016x:%s", f.draws, c[4])
	return []any{int64(units), int64(1000), int64(0), int64(1000), int64(900), int64(-1), int64(100), id}, nil
}

func (f *fakeConn) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.commands...)
}

var request = limiter.Request{
	Kind: limiter.Throttle, Key: []byte("k"), Quantity: 1, Limit: limiter.Limit{Max: 1000, Interval: time.Millisecond},
}

// heat requests a key until a draw is planned, and returns the number of requests that leased units admitted meanwhile.
func heat(l *lessee.Ledger) (admitted int) {
	for range 100 {
		var d limiter.Decision
		if l.Decide(&request, lessee.Now(), &d) && !d.Limited {
			admitted++
		}
	}
	return admitted
}

// run runs a courier in a bubble.
func run(t *testing.T, conn *fakeConn, f func(l *lessee.Ledger)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := lessee.New(lessee.Config{Lessee: "a"})
		c := Courier{Ledger: l, Conn: conn, Timeout: time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		f(l)
		cancel()
		running.Wait()
	})
}

// TestRun draws units for a key in demand, decides with them, and returns the rest at the end. The number of draws depends on
// the speed of the machine, because demand is measured in real time.
func TestRun(t *testing.T) {
	conn := &fakeConn{}
	var admitted int
	run(t, conn, func(l *lessee.Ledger) {
		admitted = heat(l)
		synctest.Wait()
		admitted += heat(l)
	})
	returned := returnedUnits(t, conn.sent())
	if admitted == 0 || conn.granted-admitted != returned {
		t.Errorf("of %d granted units %d are spent and %d returned; commands: %q", conn.granted, admitted, returned, conn.sent())
	}
}

// returnedUnits returns the sum of the units in the CL.LEASE.RETURN commands.
func returnedUnits(t *testing.T, commands []string) (sum int) {
	t.Helper()
	for _, c := range commands {
		words := strings.Fields(c)
		if words[0] != "CL.LEASE.RETURN" {
			continue
		}
		n, err := strconv.Atoi(words[2])
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		sum += n
	}
	return sum
}

// TestRun_Failures checks that requests are forwarded after a draw without a usable answer.
func TestRun_Failures(t *testing.T) {
	failed := errors.New("failed")
	for name, answer := range map[string]func([]string) (any, error){
		"no answer":       func([]string) (any, error) { return nil, failed },
		"an error":        func([]string) (any, error) { return failed, nil },
		"another type":    func([]string) (any, error) { return "OK", nil },
		"a short array":   func([]string) (any, error) { return []any{int64(1)}, nil },
		"another element": func([]string) (any, error) { return []any{"1", "2", "3", "4", "5", "6", "7", "8"}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			conn := &fakeConn{answer: answer}
			run(t, conn, func(l *lessee.Ledger) {
				heat(l)
				synctest.Wait()
				var d limiter.Decision
				if l.Decide(&request, lessee.Now(), &d) {
					t.Errorf("the decision is %+v, want the request to be forwarded", d)
				}
				if l.Counts().Failures.Load() == 0 {
					t.Error("no failure is counted, want at least 1")
				}
			})
		})
	}
}

// silentConn is a fakeConn that stops answering.
type silentConn struct {
	fakeConn
	silent atomic.Bool
}

func (s *silentConn) Do(ctx context.Context, commands [][]string) ([]any, error) {
	if s.silent.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.fakeConn.Do(ctx, commands)
}

// TestRun_SilentAuthority checks that Run returns within twice the timeout although the authority does not answer the returns
// of many keys, and although further draws are planned.
func TestRun_SilentAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &silentConn{}
		l := lessee.New(lessee.Config{Lessee: "a"})
		c := Courier{Ledger: l, Conn: conn, Timeout: 100 * time.Millisecond}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		heatMany(l, "held", 5*maxBatch)
		synctest.Wait()
		if _, leases, _ := l.Usage(lessee.Now()); leases < 4*maxBatch { // a slow machine may spread the requests for a key over time
			t.Errorf("%d leases are in hand, want at least %d", leases, 4*maxBatch)
		}
		conn.silent.Store(true)
		heatMany(l, "wanted", 20*maxBatch)
		synctest.Wait()
		stopped := time.Now()
		cancel()
		running.Wait()
		if took := time.Since(stopped); took > 2*c.Timeout {
			t.Errorf("Run returns after %v, want at most %v", took, 2*c.Timeout)
		}
	})
}

// heatMany requests n keys until a draw is planned for each of them.
func heatMany(l *lessee.Ledger, prefix string, n int) {
	for i := range n {
		req := request
		req.Key = fmt.Appendf(nil, "%s:%d", prefix, i)
		for range 100 {
			var d limiter.Decision
			l.Decide(&req, lessee.Now(), &d)
		}
	}
}

// TestAnswer_NotAccepted checks which error replies mean that a draw must not be repeated soon.
func TestAnswer_NotAccepted(t *testing.T) {
	for text, want := range map[string]bool{
		"ERR invalid kind 'window-log': must be throttle":                   true,
		"NOPERM this user has no permissions to run the 'cl.lease' command": true,
		"LOADING the node loads its data":                                   false,
		"BUSY too many clients wait":                                        false,
		"UNCERTAIN leadership was lost":                                     false,
		"OOM memory limit reached":                                          false,
		"ERR max number of clients reached":                                 false,
	} {
		d := answer(&lessee.Call{}, errors.New(text))
		if got := errors.Is(d.Err, lessee.ErrNotAccepted); got != want {
			t.Errorf("%s: not accepted is %v, want %v", text, got, want)
		}
	}
}
