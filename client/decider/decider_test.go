package decider

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/throttledhq/throttled/client"
	"github.com/throttledhq/throttled/client/internal/testserver"
	"github.com/throttledhq/throttled/middleware"
)

// patience is the timeout for decisions of the server on a busy machine.
const patience = time.Minute

// ExampleAddr is the address of a server for the examples.
var ExampleAddr string

func TestMain(m *testing.M) { os.Exit(testserver.Main(m, &ExampleAddr)) }

// connect returns two limiters of one server: one that decides in the process, and one that does not.
func connect(t *testing.T, addr string, timeout time.Duration, policy middleware.Policy) (local, remote *middleware.Limiter) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = rdb.Close() }) // the server may be paused
	c, err := client.New(rdb, client.Options{Timeout: timeout, Away: client.Open})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	config := middleware.Config{Timeout: timeout, OnFailure: policy}
	remote = middleware.New(rdb, config)
	config.Decider = New(c)
	return middleware.New(rdb, config), remote
}

// TestDecide checks that both limiters charge the same limits of all algorithms.
func TestDecide(t *testing.T) {
	local, remote := connect(t, testserver.Start(t, "0").Addr, patience, middleware.Closed)
	for name, limit := range map[string]middleware.Limit{
		"gcra":    {Count: 3, Period: time.Hour},
		"burst":   {Count: 1, Period: time.Hour, Burst: 3},
		"sliding": {Count: 3, Period: 24 * time.Hour, Algorithm: middleware.Sliding},
		"fixed":   {Count: 3, Period: 24 * time.Hour, Algorithm: middleware.Fixed},
		"log":     {Count: 3, Period: time.Hour, Algorithm: middleware.Log},
	} {
		limit.Key = name
		r := middleware.Request{Limits: []middleware.Limit{limit}}
		for i, l := range []*middleware.Limiter{local, remote, local, local, remote} {
			d, err := l.Allow(t.Context(), r)
			if want := i < 3; err != nil || d.Err != nil || d.Admitted != want || d.Limit != 3 || d.Remaining != max(0, int64(2-i)) {
				t.Errorf("%s: the decision on request %d is %+v, %v, want %t", name, i, d, err, want)
			}
		}
	}
}

// TestDecide_Several checks that both limiters charge several limits or none.
func TestDecide_Several(t *testing.T) {
	local, remote := connect(t, testserver.Start(t, "0").Addr, patience, middleware.Closed)
	r := middleware.Request{Limits: []middleware.Limit{
		{Key: "wide", Count: 10, Period: 24 * time.Hour, Algorithm: middleware.Fixed}, {Name: "narrow", Key: "narrow", Count: 2, Period: time.Hour},
	}}
	for i, l := range []*middleware.Limiter{local, remote, remote, local, local} {
		d, err := l.Allow(t.Context(), r)
		if want := i < 2; err != nil || d.Admitted != want || d.Name != "narrow" || d.Limits[0].Remaining != 10-min(2, int64(i+1)) {
			t.Errorf("the decision on request %d is %+v, %v, want %t by the narrow limit", i, d, err, want)
		}
	}
}

// TestDecide_Leases checks that requests are admitted with leases once their key is in demand.
func TestDecide_Leases(t *testing.T) {
	local, remote := connect(t, testserver.Start(t, "0").Addr, patience, middleware.Closed)
	limit := middleware.Limit{Key: "k", Count: 1_000_000, Period: 24 * time.Hour, Algorithm: middleware.Fixed}
	r := middleware.Request{Limits: []middleware.Limit{limit}}
	const requests = 5000
	for range requests {
		if d, err := local.Allow(t.Context(), r); err != nil || !d.Admitted || d.Source != middleware.FromDecider {
			t.Fatalf("the decision is %+v, %v, want an admission of the decider", d, err)
		}
	}
	d, err := remote.Allow(t.Context(), r)
	if used := 1_000_000 - d.Remaining; err != nil || used <= requests {
		t.Errorf("%d units are charged, %v, want more than those of %d requests, because some are leased", used, err, requests)
	}
}

// TestDecide_Paused checks that the policy of the middleware decides while the server is paused.
func TestDecide_Paused(t *testing.T) {
	n := testserver.Start(t, "0")
	local, _ := connect(t, n.Addr, 100*time.Millisecond, middleware.Closed)
	n.Signal(t, syscall.SIGSTOP)
	defer n.Signal(t, syscall.SIGCONT)
	d, err := local.Allow(t.Context(), middleware.Request{Limits: []middleware.Limit{{Key: "k", Count: 1, Period: time.Hour}}})
	if err != nil || !d.Unavailable() || !errors.Is(d.Err, client.ErrTimeout) && !errors.Is(d.Err, client.ErrAway) {
		t.Errorf("the decision is %+v, %v, want a refusal by the policy", d, err)
	}
}

// TestDecide_Invalid checks that a limit which cannot be compiled is an error.
func TestDecide_Invalid(t *testing.T) {
	var d Decider
	if s, err := d.Decide(t.Context(), []middleware.Limit{{Key: "k", Period: time.Hour}}, 1); !errors.Is(err, client.ErrLimit) {
		t.Errorf("%+v, %v, want ErrLimit", s, err)
	}
}
