package main

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	hotThroughput   = 70 // percent of the throughput with many keys
	hotRound        = 2 * time.Second
	hotCallers      = 64
	fullestShard    = 1.1 // keys of the fullest shard, relative to the mean
	togetherKeys    = 5_000_000
	togetherWithin  = 20 * time.Second // time in which the keys are created
	togetherTime    = 10 * time.Second
	togetherP999    = 3
	millisPerSecond = 1000
)

// keyFlood creates new keys far beyond the memory limit, and measures other clients, whose keys exist, beside further ones.
// Keys in use keep their exact limit.
func (a *abuser) keyFlood() error {
	return a.flood("noeviction", func(v *victim) error {
		var next atomic.Int64
		return a.beside(v, abuseP99, func(stop <-chan struct{}) error {
			const part = 20_000
			for pause(stop, 0) {
				from := int(next.Add(part)) + floodKeys
				if _, err := fill(v.addr, keyspace{"junk:", 16, from, from + part}, never); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// evictionFlood is like keyFlood, with a policy that evicts keys. Other clients are not measured: their keys, of which little
// is used, are evicted.
func (a *abuser) evictionFlood() error {
	return a.flood("evict-smallest-debt", func(*victim) error { return nil })
}

// flood exhausts keys, creates new ones, and calls then.
func (a *abuser) flood(policy string, then func(v *victim) error) error {
	args := []string{"--maxmemory", fmt.Sprintf("%dmb", floodLimit), "--maxmemory-policy", policy}
	return a.withVictim(args, func(v *victim) error {
		if err := floodOne(v.process, policy, a.board); err != nil {
			return err
		}
		if err := then(v); err != nil {
			return err
		}
		_, err := v.command("FLUSHALL")
		return err
	})
}

// shardFigure is a line of TestSpread.
var shardFigure = regexp.MustCompile(`the fullest shard holds ([0-9.]+) times the mean`)

// collidingKeys runs the test that stores keys whose hashes collide for known seeds, and reads its figures.
func (a *abuser) collidingKeys() error {
	out, err := exec.Command("go", "test", "-count=1", "-v", "-run", "^TestSpread$", "./buckets").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test: %w\n%s", err, out)
	}
	found := shardFigure.FindAllSubmatch(out, -1)
	if found == nil {
		return fmt.Errorf("TestSpread reports no shard:\n%s", out)
	}
	fullest := 0.0
	for _, f := range found {
		n, err := strconv.ParseFloat(string(f[1]), 64)
		if err != nil {
			return err
		}
		fullest = max(fullest, n)
	}
	a.atMost("keys of the fullest shard, to the mean", fullest, fullestShard, "x")
	return nil
}

// oneHotKey compares the throughput of one key with that of many, and checks that the limit of a hot key is exact.
func (a *abuser) oneHotKey() error {
	return a.withVictim(nil, func(v *victim) error {
		flags := []string{"-conns", "50", "-depth", "16", "-duration", hotRound.String(), "-limit", ample}
		many, one, err := a.load.alternate(abuseRounds, shape{"", flags}, v.addr, nil, v.addr, []string{"-dist", "hot"})
		if err != nil {
			return err
		}
		a.note("%.0f requests per second with many keys, %.0f with one", middleOf(many), middleOf(one))
		a.atLeast("throughput of one key, to many", 100*middleOf(one)/middleOf(many), hotThroughput, "%")
		for i, l := range hotLimits {
			s := settings{callers: hotCallers, lasting: hotRound}
			if err := hammer(v.addr, fmt.Sprintf("hot%d", i), l, s, a.board); err != nil {
				return err
			}
		}
		_, err = v.command("FLUSHALL")
		return err
	})
}

// expiryTogether creates keys that expire at the same time, and measures other clients then.
func (a *abuser) expiryTogether() error {
	return a.withVictim(nil, func(v *victim) error {
		quiet, err := a.others(v, togetherTime)
		if err != nil {
			return err
		}
		at, err := createTogether(v.addr)
		if err != nil {
			return err
		}
		removed := make(chan error, 1)
		var gone time.Time
		go func() {
			var err error
			gone, err = awaitKeys(v.addr, loadKeys)
			removed <- err
		}()
		during, err := a.others(v, togetherTime)
		if err = errors.Join(err, <-removed); err != nil {
			return err
		}
		a.note("others: p99.9 %.3f ms, %.3f ms while %d keys expire", quiet.p999, during.p999, togetherKeys)
		a.atMost("p99.9 of others, to p99.9 before", during.p999/quiet.p999, togetherP999, "x")
		sweep, err := v.info("stats", "longest_sweep_usec")
		a.note("removed %.1f s later; longest slice of the expiry %.1f ms, with the wait for a processor (see WHAT=pauses)", gone.Sub(at).Seconds(), float64(sweep)/millisPerSecond)
		return err
	})
}

// createTogether creates keys that expire at the returned time.
func createTogether(addr string) (at time.Time, err error) {
	at = time.Now().Add(togetherWithin)
	o, err := send(addr, 0, togetherKeys, func(to []byte, n int) []byte {
		left := max(1, time.Until(at).Milliseconds())
		to = append(to, "CL.THROTTLE "...)
		to = keyspace{prefix: "brief:", size: 16}.append(to, n)
		return fmt.Appendf(to, " 0 %d %d", millisPerSecond, left) // restores a unit every left milliseconds
	})
	if err == nil && (o.admitted != togetherKeys || time.Now().After(at)) {
		err = fmt.Errorf("%d of %d keys were created in time", o.admitted, togetherKeys)
	}
	return at, err
}
