package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/cluster"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/raftlog"
)

const recoverUsage = `Usage: throttled recover --data-dir DIR [NODE=HOST:PORT ...]

Forms a cluster anew that has lost most of its nodes for good. Without nodes it only shows
what the directory holds.

With nodes, those and no others are the cluster from then on; the one that has used DIR has to
be among them. Run it while no node runs, on each node that is left, with the same nodes; start the
one with the newest entry first. What only the lost nodes had is lost: limits may admit again what
they had admitted. Nodes that come back later must not be started with their old data.

`

// runRecover serves "throttled recover".
func runRecover(_ context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("recover", flag.ContinueOnError)
	flags.SetOutput(stderr)
	dir := flags.String("data-dir", "", "directory of the replicated log")
	flags.Usage = func() {
		_, _ = fmt.Fprint(flags.Output(), recoverUsage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitOK
	} else if err != nil {
		return exitUsage
	}
	if *dir == "" {
		flags.Usage()
		return exitUsage
	}
	nodes, err := options.ParseNodes(strings.Join(flags.Args(), " "))
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "throttled: %v\n", err)
		return exitUsage
	}
	summary, err := raftlog.Inspect(*dir)
	if err == nil && len(nodes) > 0 {
		summary, err = recoverWith(*dir, nodes, summary.Identity, stderr)
	}
	if err == nil {
		err = printSummary(stdout, &summary)
	}
	return check(stderr, err)
}

// The errors of a recovery that would help nobody.
var (
	errNobody  = errors.New("no node has used this directory")
	errUnnamed = errors.New("the node that has used this directory is not among the nodes: it would belong to no cluster")
)

// recoverWith makes nodes the configuration. The log is replayed for it into a table that is
// thrown away.
func recoverWith(dir string, nodes []options.Node, who *raftlog.Identity, stderr io.Writer) (raftlog.Summary, error) {
	if who == nil {
		return raftlog.Summary{}, fmt.Errorf("recover %s: %w", dir, errNobody)
	}
	if !slices.ContainsFunc(nodes, func(n options.Node) bool { return n.ID == who.Node }) {
		return raftlog.Summary{}, fmt.Errorf("recover %s of %s: %w", dir, who.Node, errUnnamed)
	}
	failed := make(chan error, 1)
	machine := replayer(who, func(err error) { failed <- err })
	summary, err := raftlog.Recover(dir, voters(nodes), machine, slog.New(slog.NewTextHandler(stderr, nil)))
	if err == nil {
		err = raftlog.Unmark(dir) // there is no leader any more with which it does not go
	}
	select {
	case why := <-failed:
		return summary, errors.Join(why, err)
	default:
		return summary, err
	}
}

// replayer takes in the log of a node that does not run.
func replayer(who *raftlog.Identity, fatal func(error)) raft.FSM {
	clock := cluster.NewClock()
	return cluster.New(cluster.Config{
		Cluster: who.Cluster, Self: cluster.Announcement{ID: who.Node}, Version: version,
		Table: buckets.New(buckets.Config{Clock: clock.Now, Journal: true}), Clock: clock,
		Fatal: fatal,
	}).Machine()
}

func voters(nodes []options.Node) []raft.Server {
	servers := make([]raft.Server, len(nodes))
	for i, n := range nodes {
		servers[i] = raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(n.ID), Address: raft.ServerAddress(n.Addr)}
	}
	return servers
}

func printSummary(w io.Writer, s *raftlog.Summary) error {
	var b strings.Builder
	if s.Identity != nil {
		fmt.Fprintf(&b, "cluster      %s\nnode         %s\n", s.Identity.Cluster, s.Identity.Node)
	}
	fmt.Fprintf(&b, "newest entry %d of term %d\nterm         %d\n", s.LastIndex, s.LastTerm, s.CurrentTerm)
	for _, m := range s.Configuration.Servers {
		fmt.Fprintf(&b, "%-12s %s at %s\n", strings.ToLower(m.Suffrage.String()), m.ID, m.Address)
	}
	for _, snap := range s.Snapshots {
		fmt.Fprintf(&b, "snapshot     %s up to entry %d, %d bytes\n", snap.ID, snap.Index, snap.Size)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
