package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// lab is the state that all scenarios of a run share.
type lab struct {
	settings
	out    *report
	random *rand.Rand
	bin    string
	dir    string
	made   int // number of clusters
}

// settings holds the values of the flags.
type settings struct {
	seed   uint64
	last   time.Duration // duration of a scenario; 0 means its default
	faults int           // faults that mix must inflict; 0 means as many as time permits
	ops    int           // decisions that mix must check; 0: as many as time permits
	times  int           // repetitions in a scenario that measures; 0 means its default
	bars   bool          // run each scenario at the size for which its bar, the required result, is stated
	nodes  int
	dir    string
	bin    string
	rate   int
	only   string
	keep   bool

	verbose bool
}

// tools lists the required programs and their Debian packages.
var tools = []struct{ program, from string }{
	{"ip", "iproute2"}, {"tc", "iproute2"}, {"nft", "nftables"}, {"strace", "strace"}, {"mount", "mount"},
}

// missing returns an error that lists the unmet requirements of this machine, or nil.
func missing() error {
	var errs []error
	if os.Geteuid() != 0 {
		errs = append(errs, errors.New("network namespaces require root"))
	}
	for _, t := range tools {
		if _, err := exec.LookPath(t.program); err != nil {
			errs = append(errs, fmt.Errorf("%s is missing: apt-get install %s", t.program, t.from))
		}
	}
	return errors.Join(errs...)
}

// open creates the directory of the run, and builds the program unless a flag names a built one.
func (l *lab) open() (err error) {
	if err := missing(); err != nil {
		return err
	}
	if l.dir = l.settings.dir; l.dir == "" {
		if l.dir, err = os.MkdirTemp("", "throttled-chaos-"); err != nil {
			return err
		}
	} else if err = os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	if l.dir, err = filepath.Abs(l.dir); err != nil {
		return err
	}
	if l.bin = l.settings.bin; l.bin != "" {
		l.bin, err = filepath.Abs(l.bin)
		return err
	}
	l.bin = filepath.Join(l.dir, "throttled")
	return run(exec.Command("go", "build", "-C", repository, "-tags", "chaos", "-o", l.bin, "./cmd/throttled"))
}

// close removes the directory of the run, unless the run has failed or a flag keeps the
// directory.
func (l *lab) close(failed bool) error {
	if failed || l.keep || l.settings.dir != "" {
		fmt.Printf("logs and histories are in %s\n", l.dir)
		return nil
	}
	return os.RemoveAll(l.dir)
}

// plan is the configuration of a cluster.
type plan struct {
	nodes int
	args  []string            // additional arguments of each node
	own   map[string][]string // additional arguments of one node, by its id
	env   []string
	disk  int // size of each node's own file system in MiB; 0 means none
}

// cluster is a cluster of real processes.
type cluster struct {
	lab           *lab
	plan          plan
	net           *network
	dir           string
	clock         clock
	nodes         []*node
	formerMembers []*node
	disks         []string // mounted file systems
	log           *os.File // list of the inflicted faults
}

// start creates a cluster and waits until it returns decisions. The caller must close the
// cluster even if an error is returned.
func (l *lab) start(ctx context.Context, p plan) (c *cluster, err error) {
	if p.nodes == 0 {
		p.nodes = l.nodes
	}
	l.made++
	c = &cluster{lab: l, plan: p, clock: newClock(), dir: filepath.Join(l.dir, fmt.Sprintf("cluster%d", l.made))}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return c, err
	}
	if c.log, err = os.Create(filepath.Join(c.dir, "faults")); err != nil {
		return c, err
	}
	if c.net, err = newNetwork(); err != nil {
		return c, err
	}
	for range p.nodes {
		if _, err := c.prepare(""); err != nil {
			return c, err
		}
	}
	for _, n := range c.nodes {
		n.args = append(n.args, "--bootstrap", c.members())
		if err := n.start(); err != nil {
			return c, err
		}
	}
	return c, c.healthy(ctx, startWithin)
}

// prepare creates the next node: its host, directories, certificate and arguments.
func (c *cluster) prepare(join string) (*node, error) {
	h, err := c.net.add()
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("n%d", len(c.net.hosts)) // ids are never reused
	n := &node{id: id, host: h, dir: filepath.Join(c.dir, id), bin: c.lab.bin, env: c.plan.env, join: join}
	certs := filepath.Join(c.dir, "certs")
	if err := errors.Join(
		os.MkdirAll(n.dataDir(), 0o700), n.setWall(0),
		run(exec.Command(c.lab.bin, "certs", "--dir", certs, "--cluster", "chaos", id)),
	); err != nil {
		return nil, err
	}
	if c.plan.disk > 0 {
		if err := c.mount(n); err != nil {
			return nil, err
		}
	}
	n.args = []string{
		"--port", fmt.Sprint(clientPort), "--bind", h.addr, "--protected-mode", "no", "--dir", n.dir, "--save", "",
		"--data-dir", n.dataDir(), "--cluster-id", "chaos", "--node-id", id, "--raft-addr", n.raftAddr(),
		"--raft-tls-cert", filepath.Join(certs, id+".pem"), "--raft-tls-key", filepath.Join(certs, id+"-key.pem"),
		"--raft-tls-ca", filepath.Join(certs, "ca.pem"),
		"--raft-heartbeat", "250", "--cluster-port", fmt.Sprint(clusterPort), "--sentinel-port", fmt.Sprint(sentinelPort),
	}
	if join != "" {
		n.args = append(n.args, "--join", join)
	}
	n.args = append(n.args, c.plan.args...)
	n.args = append(n.args, c.plan.own[id]...)
	c.nodes = append(c.nodes, n)
	return n, nil
}

// members returns the initial nodes as the argument of --bootstrap.
func (c *cluster) members() string {
	var list []string
	for _, n := range c.nodes {
		list = append(list, n.id+"="+n.raftAddr())
	}
	return strings.Join(list, " ")
}

// close kills all processes and removes the file systems and networks of the cluster.
func (c *cluster) close() error {
	var errs []error
	for _, n := range slices.Concat(c.nodes, c.formerMembers) {
		errs = append(errs, n.kill())
	}
	for _, d := range c.disks {
		errs = append(errs, run(exec.Command("umount", d)))
	}
	if c.net != nil {
		errs = append(errs, c.net.close())
	}
	if c.log != nil {
		errs = append(errs, c.log.Close())
	}
	return errors.Join(errs...)
}

// note logs an action on the cluster.
func (c *cluster) note(format string, args ...any) {
	line := fmt.Sprintf("%9.3f s  %s", float64(c.clock.now())/1e9, fmt.Sprintf(format, args...))
	c.lab.out.detail(line)
	_, _ = fmt.Fprintln(c.log, line) // errors are ignored; with -v the line is also printed
}

// leader returns the current leader. If several nodes claim to be the leader, it returns
// the one with the newest term.
func (c *cluster) leader() (*node, error) {
	var leader *node
	var newest uint64
	var errs []error
	for _, n := range c.nodes {
		if n.running() == nil {
			continue
		}
		info, err := n.info(patience / 4)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if term := termOf(info); leads(info) && term >= newest {
			leader, newest = n, term
		}
	}
	if leader == nil {
		return nil, errors.Join(append(errs, errors.New("no node is the leader"))...)
	}
	return leader, nil
}

// awaitLeader waits for a leader and returns it.
func (c *cluster) awaitLeader(ctx context.Context) (leader *node, err error) {
	err = await(ctx, startWithin, func() (bool, error) {
		var err error
		leader, err = c.leader()
		return err == nil, err
	})
	return leader, err
}

// follower returns a random running node that is not the leader.
func (c *cluster) follower(ctx context.Context, r *rand.Rand) (*node, error) {
	leader, err := c.awaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range r.Perm(len(c.nodes)) {
		if n := c.nodes[i]; n != leader && n.running() != nil {
			return n, nil
		}
	}
	return nil, errors.New("no follower is running")
}

// healthy waits until all nodes are running, agree on a leader and return decisions.
func (c *cluster) healthy(ctx context.Context, within time.Duration) error {
	err := await(ctx, within, func() (bool, error) {
		seen := map[string]bool{}
		for _, n := range c.nodes {
			r, err := askOnce(n.addr(), patience, "CL.THROTTLE", "healthy:"+n.id, "1000000", "1000000", "1")
			if err != nil {
				return false, err
			}
			info, err := n.info(patience)
			if err != nil || len(r.integers()) != 5 {
				return false, err
			}
			seen[info["leader"]] = true
		}
		if len(seen) > 1 {
			return false, fmt.Errorf("leaders: %v", seen)
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("the cluster does not decide: %w", err)
	}
	return nil
}

// otherAddrs returns the addresses of all hosts except the host of the given node.
func (c *cluster) otherAddrs(except *node) (addrs []string) {
	for _, n := range c.nodes {
		if n != except {
			addrs = append(addrs, n.host.addr)
		}
	}
	return addrs
}
