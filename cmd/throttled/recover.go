package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/cluster"
	"github.com/throttledhq/throttled/raftlog"
)

const recoverUsage = `Usage: throttled recover --data-dir DIR [NODE=HOST:PORT ...]

Forms a cluster anew that has lost most of its nodes for good. Without nodes it only shows
what the directory holds.

With nodes, those and no others are the cluster from then on. Run it while no node runs, on
each node that is left, with the same nodes; start the one with the newest entry first. What only
the lost nodes had is lost: limits may admit again what they had admitted. Nodes that come back later
must not be started with their old data.

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
	servers, err := parseServers(flags.Args())
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "throttled: %v\n", err)
		return exitUsage
	}
	summary, err := raftlog.Inspect(*dir)
	if err == nil && len(servers) > 0 {
		summary, err = recoverWith(*dir, servers, summary.Identity, stderr)
	}
	if err == nil {
		err = printSummary(stdout, &summary)
	}
	return check(stderr, err)
}

func parseServers(words []string) (servers []raft.Server, err error) {
	for _, word := range words {
		id, addr, found := strings.Cut(word, "=")
		if !found || id == "" || !strings.Contains(addr, ":") {
			return nil, fmt.Errorf("%q is not NODE=HOST:PORT", word)
		}
		servers = append(servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(id), Address: raft.ServerAddress(addr)})
	}
	return servers, nil
}

var errNobody = errors.New("no node has used this directory")

// recoverWith makes servers the configuration. The log is replayed for it into a table that is
// thrown away.
func recoverWith(dir string, servers []raft.Server, who *raftlog.Identity, stderr io.Writer) (raftlog.Summary, error) {
	if who == nil {
		return raftlog.Summary{}, fmt.Errorf("recover %s: %w", dir, errNobody)
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	clock := cluster.NewClock()
	failed := make(chan error, 1)
	node := cluster.New(cluster.Config{
		Cluster: who.Cluster, Self: cluster.Announcement{ID: who.Node}, Version: version,
		Table: buckets.New(buckets.Config{Clock: clock.Now, Journal: true}), Clock: clock,
		Fatal: func(err error) { failed <- err },
	})
	summary, err := raftlog.Recover(dir, servers, node.Machine(), log)
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
