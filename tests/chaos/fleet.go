package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// fleet is a set of sidecars of a cluster. Each sidecar has a host of its own, and prefers another node.
type fleet struct {
	*cluster
	sidecars []*node
	relaxed  bool // leases are relaxed

	mu   sync.Mutex
	sums leaseSums
}

// leaseSums holds the sums of the counters of all processes of the sidecars, including processes that have exited.
type leaseSums struct {
	admitted, refused, forwarded uint64 // requests
	drawn, returned              uint64 // units
	lapsed                       uint64 // units whose lease ended before they were spent
	stranded                     uint64 // units in hand of sidecars when they were killed
}

// newFleet starts sidecars, and waits until each of them uses an upstream. The caller must close
// the fleet before the cluster, even if an error is returned.
func (c *cluster) newFleet(ctx context.Context, p fleetPlan) (*fleet, error) {
	f := &fleet{cluster: c, relaxed: slices.Contains(p.args, relaxedLeases)}
	for i := range p.count {
		s, err := c.prepareSidecar(i)
		if err != nil {
			return f, err
		}
		s.args = append(s.args, p.args...)
		f.sidecars = append(f.sidecars, s)
		if err := s.start(); err != nil {
			return f, err
		}
	}
	return f, f.connected(ctx)
}

// prepareSidecar creates the host, the directory and the arguments of the i-th sidecar.
func (c *cluster) prepareSidecar(i int) (*node, error) {
	h, err := c.net.add()
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("s%d", i+1)
	s := &node{id: id, host: h, dir: filepath.Join(c.dir, id), bin: c.lab.bin, env: c.plan.env}
	if err := errors.Join(os.MkdirAll(s.dir, 0o700), s.setWall(0)); err != nil {
		return nil, err
	}
	var upstreams []string
	for j := range c.nodes {
		upstreams = append(upstreams, c.nodes[(i+j)%len(c.nodes)].addr())
	}
	s.args = []string{
		"--port", itoa(clientPort), "--bind", h.addr, "--protected-mode", "no",
		"--upstream", strings.Join(upstreams, ","), "--upstream-lessee", id, "--upstream-leases", "strict", "--upstream-away", "closed",
	}
	return s, nil
}

// connected waits until each sidecar uses an upstream.
func (f *fleet) connected(ctx context.Context) error {
	for _, s := range f.sidecars {
		err := await(ctx, startWithin, func() (bool, error) {
			info, err := s.section(patience, "sidecar")
			return info["upstream_link_status"] == "up", err
		})
		if err != nil {
			return fmt.Errorf("%s does not reach a node: %w\n%s", s.id, err, s.tail(8))
		}
	}
	return nil
}

// close kills all sidecars.
func (f *fleet) close() error {
	var errs []error
	for _, s := range f.sidecars {
		errs = append(errs, s.kill())
	}
	return errors.Join(errs...)
}

// count adds the counters of a sidecar to the sums. It is called once before each exit of the sidecar, and at the end of the
// run. It returns the number of units in hand. The counters of a sidecar that does not answer are missing from the sums.
func (f *fleet) count(s *node) (inHand uint64) {
	info, err := s.section(patience, "sidecar")
	if err != nil {
		f.note("the counters of %s are not known: %v", s.id, err)
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, sum := range map[string]*uint64{
		"lessee_admitted": &f.sums.admitted, "lessee_refused": &f.sums.refused, "lessee_forwarded": &f.sums.forwarded,
		"lessee_drawn_units": &f.sums.drawn, "lessee_returned_units": &f.sums.returned, "lessee_lost_units": &f.sums.lapsed,
	} {
		*sum += number(info, name)
	}
	return number(info, "lessee_units")
}

// countAll adds the counters of all sidecars to the sums.
func (f *fleet) countAll() {
	for _, s := range f.sidecars {
		f.count(s)
	}
}

// showLeases prints the sums.
func (f *fleet) showLeases() {
	s := &f.sums
	f.lab.out.note("decisions of the sidecars", "%d admitted and %d refused locally, %d forwarded", s.admitted, s.refused, s.forwarded)
	f.lab.out.note("leased units", "%d drawn, %d returned, %d not spent before the end of the lease", s.drawn, s.returned, s.lapsed)
}

// countKilled counts a sidecar that is about to be killed.
func (f *fleet) countKilled(s *node) {
	inHand := f.count(s)
	f.note("%s has %d units in hand", s.id, inHand)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sums.stranded += inHand
}

// onSidecar returns a fault that applies act to a random sidecar.
func (f *fleet) onSidecar(act func(context.Context, *trial, *node, *rand.Rand) error) func(context.Context, *trial, *rand.Rand) error {
	return func(ctx context.Context, t *trial, r *rand.Rand) error {
		return act(ctx, t, f.sidecars[r.IntN(len(f.sidecars))], r)
	}
}

// killed kills a sidecar, and starts it again. Its units in hand are lost.
func (f *fleet) killed(ctx context.Context, t *trial, s *node, r *rand.Rand) error {
	f.countKilled(s)
	return killed(ctx, t, s, r)
}

// allKilled kills all sidecars concurrently, and starts them again.
func (f *fleet) allKilled(ctx context.Context, t *trial, r *rand.Rand) error {
	errs := make([]error, len(f.sidecars))
	var wait sync.WaitGroup
	for i, s := range f.sidecars {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		wait.Go(func() { errs[i] = f.killed(ctx, t, s, own) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// stopped stops a sidecar, which returns its units, and starts it again. It first waits until the sidecar answers: SIGTERM kills
// a process that has just been started.
func (f *fleet) stopped(ctx context.Context, t *trial, s *node, r *rand.Rand) error {
	err := await(ctx, startWithin, func() (bool, error) {
		_, err := s.section(patience, "sidecar")
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", s.id, err)
	}
	f.count(s)
	return restarted(ctx, t, s, r)
}

// all returns the nodes and the sidecars.
func (f *fleet) all() []*node { return slices.Concat(f.nodes, f.sidecars) }
