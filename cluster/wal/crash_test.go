package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/throttledhq/throttled/internal/race"
)

// TestCrash_EachStep runs a script of random calls of a log. Each call consists of steps: operations
// on the files and on Base. For each step of the script, the test runs the script up to that step and
// then crashes the process or cuts the power. The recovery is interrupted in the same way, at a random
// step. The effects of all acknowledged calls must survive. The unfinished call may be applied in part.
func TestCrash_EachStep(t *testing.T) {
	for _, power := range []bool{false, true} {
		for seed := range uint64(12 / race.Factor) {
			t.Run(fmt.Sprintf("power=%v/%d", power, seed), func(t *testing.T) {
				at := 1
				for c := (crash{power: power, seed: seed}); c.run(t, at); at++ {
				}
				if at < 50 {
					t.Errorf("the script takes only %d steps; want at least 50", at)
				}
			})
		}
	}
}

type crash struct {
	power bool
	seed  uint64
}

// run runs the script, crashes at the given step, and checks the recovered log. It reports whether the script
// has a step with this number.
func (c crash) run(t *testing.T, at int) bool {
	r, chance := rand.New(rand.NewPCG(c.seed, 7)), rand.New(rand.NewPCG(c.seed, uint64(at)))
	m := newMachine()
	m.powerCut(at)
	before, after := oracle{}, oracle{}
	l, err := Open(m.config())
	unfinished := op{lo: 1} // the deletion of an empty range stands for "no operation is unfinished"
	for step := uint64(0); err == nil && step < 30; step++ {
		unfinished = randomOp(r, after, step)
		before.store(after.list())
		_ = unfinished.do(after)
		if err = unfinished.do(l); err == nil {
			_ = unfinished.do(before)
		}
	}
	if l != nil {
		if closeErr := l.Close(); err == nil {
			unfinished, err = op{lo: 1}, closeErr
		}
	}
	if err != nil && !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	m = m.restart(c.power, chance)
	m.powerCut(1 + chance.IntN(12))
	if l, err := Open(m.config()); err == nil {
		_ = l.Close()
	} else if !errors.Is(err, errDisk) {
		t.Fatalf("cut at step %d, during the operation %v: Open returns %v; want nil or errDisk", at, unfinished, err)
	}
	c.check(t, m.restart(c.power, chance), fmt.Sprintf("cut at step %d, in %v", at, unfinished), before, unfinished)
	return err != nil
}

// check opens the log of a machine, verifies its content, appends entries, and verifies it again.
func (c crash) check(t *testing.T, m *machine, what string, before oracle, unfinished op) {
	l, err := Open(m.config())
	if err != nil {
		t.Fatalf("%s: Open returns %v; want nil", what, err)
	}
	state, err := stateOf(l, before, unfinished)
	if err != nil {
		t.Fatalf("%s: wrong content: %v", what, err)
	}
	_, last := state.bounds()
	more := commands(last+1, last+20, 99, 5)
	must(t, l.StoreLogs(more))
	state.store(more)
	checkLog(t, l, state)
	must(t, l.Close())
	checkLog(t, baseStore{m}, state)
}

// stateOf returns the content of a log if it is a valid result of an unfinished operation.
// Valid results are the entries before the operation, these entries plus a prefix of the
// entries that the operation stores, or these entries without the range that it deletes.
func stateOf(l *Log, before oracle, unfinished op) (oracle, error) {
	var failures []error
	for n := range len(unfinished.entries) + 1 {
		state := oracle{}
		state.store(before.list())
		state.store(unfinished.entries[:n])
		err := compare(l, state)
		if err == nil {
			return state, nil
		}
		failures = append(failures, err)
	}
	if unfinished.entries == nil {
		state := oracle{}
		state.store(before.list())
		state.remove(unfinished.lo, unfinished.hi)
		err := compare(l, state)
		if err == nil {
			return state, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}
