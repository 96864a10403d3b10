package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/throttledhq/throttled/cluster"
	"github.com/throttledhq/throttled/cluster/raftstore"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/persistence"
	"github.com/throttledhq/throttled/topology"
)

const restoreText = `Makes a data directory from a backup or a snapshot. Without nodes, it is for a standalone server
with --data-dir. With nodes, it is for one node of a new cluster: run the command for each node,
with the same FILE and the same list, and start the nodes without --bootstrap and --join. To begin
with one node, list only this node, and start the others with --join.

Nodes of another cluster with the same name cannot connect to the new cluster. Stop them first: they
would continue to answer their own clients.`

// restoreCommand holds the flags of "throttled restore".
type restoreCommand struct {
	from, dir     string
	cluster, node string
	nodes         []options.Node
}

// bindRestore binds the command "throttled restore".
func bindRestore(f *flag.FlagSet) action {
	c := &restoreCommand{}
	f.StringVar(&c.from, "from", "", "`FILE` of the backup")
	f.StringVar(&c.dir, "data-dir", "", "`DIR` to create")
	f.StringVar(&c.cluster, "cluster-id", "", "`NAME` of the new cluster")
	f.StringVar(&c.node, "node-id", "", "`NAME` of the node that will use DIR")
	return func(_ context.Context, operands []string, stdout, stderr io.Writer) error {
		var err error
		if c.nodes, err = options.ParseNodes(strings.Join(operands, " ")); err == nil {
			err = c.check()
		}
		if err != nil {
			return wrongUsage("%w", err)
		}
		info, err := c.run(stderr)
		if err == nil {
			_, err = fmt.Fprintf(stdout, "%s: %d keys for node %s of cluster %s\n", c.dir, info.Keys, c.node, c.cluster)
		}
		return err
	}
}

// check validates the flags. It sets the names of a standalone server.
func (c *restoreCommand) check() error {
	switch {
	case c.from == "":
		return errors.New("--from is missing: specify the file of the backup")
	case c.dir == "":
		return errors.New("--data-dir is missing: specify the directory to create")
	case c.cluster == "" && c.node == "" && len(c.nodes) == 0:
		c.cluster, c.node, c.nodes = alone, alone, []options.Node{{ID: alone, Addr: alone}}
		return nil
	case c.cluster == "" || c.node == "" || len(c.nodes) == 0:
		return errors.New("--cluster-id, --node-id and the list of nodes require each other: specify all of them for a node of a cluster, or none for a standalone server")
	}
	for _, name := range []string{c.cluster, c.node} {
		if err := topology.CheckName(name); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(c.nodes, func(n options.Node) bool { return n.ID == c.node }) {
		return fmt.Errorf("node %s is not in the list of nodes: add %s=HOST:PORT", c.node, c.node)
	}
	return nil
}

// run verifies the backup and creates the directory.
func (c *restoreCommand) run(stderr io.Writer) (info persistence.Info, err error) {
	if info, err = verifySnapshot(c.from); err != nil {
		return info, err
	}
	f, err := os.Open(c.from)
	if err != nil {
		return info, err
	}
	defer func() { _ = f.Close() }() // opened for reading only
	return info, raftstore.Create(c.dir, raftstore.First{
		Cluster: c.cluster, Node: c.node, Servers: voters(c.nodes), Recovery: c.recovery(&info),
		Index: cluster.SeedIndex, Term: cluster.SeedTerm,
		Write: func(w io.Writer) error {
			return cluster.WriteSeed(w, cluster.Seed{Cluster: c.cluster, Info: info, Records: f})
		},
		Log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
}

// recovery returns the recovery of the new cluster. It is the same for all of its nodes. Its number, the time of the backup, is
// higher than that of any earlier cluster of this name, so nodes of such a cluster exit when they reach the new one.
func (c *restoreCommand) recovery(info *persistence.Info) topology.Recovery {
	before := topology.Recovery(fmt.Sprintf("%d-%016x", info.Created.Unix(), info.Ended))
	return before.Next(c.cluster, members(c.nodes))
}
