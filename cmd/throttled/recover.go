package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
	"golang.org/x/term"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/cluster"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/raftlog"
	"github.com/throttledhq/throttled/topology"
)

const recoverUsage = `Usage: throttled recover --data-dir DIR [options] [NODE=HOST:PORT ...]

Forms a cluster anew that has lost most of its nodes for good. Without nodes it only shows
what the directory holds.

With nodes, those and no others are the cluster from then on; the one that has used DIR has to
be among them. Stop all nodes, run it on each node that is left, with the same nodes, and start the
one with the newest entry first. It shows what it would do and asks. It refuses while a node of the cluster
answers, or one of the new cluster. What only the lost nodes had is lost: limits may admit again what they had admitted.

The new cluster is fenced off: nodes that were not recovered with it can neither vote in it nor join it nor forward
to it. Remove their data directories, and add them under other ids. They must not be started before that:
among each other they can still form the old cluster, and answer clients.

`

// recoverFlags holds the flags of "throttled recover".
type recoverFlags struct {
	dir       string
	yes       bool
	resetTerm bool
	gone      []string // ids
	nodes     []options.Node
}

// recovery is one run of "throttled recover". in is nil if standard input is not a terminal.
type recovery struct {
	recoverFlags
	in             io.Reader
	stdout, stderr io.Writer
}

// runRecover runs the command "throttled recover".
func runRecover(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	r := recovery{stdout: stdout, stderr: stderr}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		r.in = os.Stdin
	}
	return r.run(ctx, args)
}

func (r *recovery) run(ctx context.Context, args []string) int {
	switch err := r.parse(args, r.stderr); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	summary, err := raftlog.Inspect(r.dir)
	if err == nil {
		err = printSummary(r.stdout, &summary)
	}
	if err == nil && len(r.nodes) > 0 {
		err = r.recover(ctx, &summary)
	}
	return check(r.stderr, err)
}

// parse parses the arguments. If it returns an error, it has written the error or the usage to stderr.
func (r *recovery) parse(args []string, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("recover", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&r.dir, "data-dir", "", "`directory` of the replicated log")
	flags.BoolVar(&r.yes, "yes", false, "do not ask")
	flags.BoolVar(&r.resetTerm, "reset-term", false, "forget a term that no election has led to, and the vote in it; give it on each node that is left")
	gone := flags.String("gone", "", "`nodes`, separated by commas, that are lost although something answers at their addresses; if one of them runs, limits admit twice")
	flags.Usage = func() {
		_, _ = fmt.Fprint(flags.Output(), recoverUsage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if r.dir == "" {
		flags.Usage()
		return errors.New("no directory")
	}
	if *gone != "" {
		for id := range strings.SplitSeq(*gone, ",") {
			r.gone = append(r.gone, strings.TrimSpace(id))
		}
	}
	if r.nodes, err = options.ParseNodes(strings.Join(flags.Args(), " ")); err != nil {
		_, _ = fmt.Fprintf(stderr, "throttled: %v\n", err)
	}
	return err
}

// Errors of a refused recovery.
var (
	errNobody      = errors.New("no node has used this directory")
	errUnnamed     = errors.New("the node that has used this directory is not among the nodes: it would belong to no cluster")
	errAnswering   = errors.New("something answers at the address of a node: stop the nodes of the cluster first, or name with --gone those that are lost and whose addresses others use now")
	errUnknown     = errors.New("there is no such node")
	errUnresolved  = errors.New("it cannot be checked that the node does not run: name it with --gone if it is lost")
	errInterrupted = errors.New("interrupted: nothing was changed")
	errDeclined    = errors.New("nothing was changed")
	errUnasked     = errors.New("there is no terminal to ask on: give --yes to recover without being asked")
)

// recover makes r.nodes the cluster if all checks pass and the operator confirms.
func (r *recovery) recover(ctx context.Context, found *raftlog.Summary) error {
	who := found.Identity
	if who == nil {
		return fmt.Errorf("recover %s: %w", r.dir, errNobody)
	}
	if !slices.ContainsFunc(r.nodes, func(n options.Node) bool { return n.ID == who.Node }) {
		return fmt.Errorf("recover %s of %s: %w", r.dir, who.Node, errUnnamed)
	}
	if err := r.prepare(ctx, found); err != nil {
		return fmt.Errorf("recover %s: %w", r.dir, err)
	}
	summary, err := r.rewrite(who)
	if err != nil {
		return err
	}
	return r.printDone(&summary)
}

// prepare checks that no node is running, before and after the operator confirms, which may take long.
func (r *recovery) prepare(ctx context.Context, found *raftlog.Summary) error {
	known := r.known(found)
	if err := r.checkGone(known); err != nil {
		return err
	}
	if err := r.probe(ctx, known); err != nil {
		return err
	}
	if err := r.printPlan(found); err != nil || r.yes {
		return err
	}
	if err := r.agree(ctx); err != nil {
		return err
	}
	return r.probe(ctx, known)
}

// agree asks the operator for confirmation and returns an error unless the answer is yes.
func (r *recovery) agree(ctx context.Context) error {
	if r.in == nil {
		return errUnasked
	}
	if _, err := io.WriteString(r.stdout, "Type yes to do so: "); err != nil {
		return err
	}
	line, err := r.readLine(ctx)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.TrimSpace(line) != "yes" {
		return errDeclined
	}
	return nil
}

// readLine reads a line from the terminal. If ctx is canceled first, the reading goroutine remains blocked until the
// process exits.
func (r *recovery) readLine(ctx context.Context) (line string, err error) {
	read := make(chan struct{})
	var text string
	var failed error
	go func() {
		defer close(read)
		text, failed = bufio.NewReader(r.in).ReadString('\n')
	}()
	select {
	case <-read:
		return text, failed
	case <-ctx.Done():
		return "", errInterrupted
	}
}

func (r *recovery) printPlan(found *raftlog.Summary) error {
	var b strings.Builder
	b.WriteString("\nThe cluster is to be, from now on:\n")
	for _, n := range r.nodes {
		fmt.Fprintf(&b, "  %s at %s\n", n.ID, n.Addr)
	}
	fmt.Fprintf(&b, "Its recovery is to be %s\n", found.Identity.NextRecovery(members(r.nodes)))
	if lost := r.lost(found); len(lost) > 0 {
		fmt.Fprintf(&b, "These nodes are fenced off, and what only they had is lost: %s\n", strings.Join(lost, ", "))
	}
	if len(r.gone) > 0 {
		fmt.Fprintf(&b, "WARNING: it was not checked that %s do not run. If one does, it may admit what this cluster admits, too.\n", strings.Join(r.gone, ", "))
	}
	if r.resetTerm {
		fmt.Fprintf(&b, "Term %d and the vote in it are forgotten.\n", found.CurrentTerm)
	}
	if found.Identity.Stale != "" {
		fmt.Fprintf(&b, "WARNING: this directory was turned away before: %s\n", found.Identity.Stale)
	}
	_, err := io.WriteString(r.stdout, b.String())
	return err
}

// lost returns the nodes of the old cluster that are not in the new one.
func (r *recovery) lost(found *raftlog.Summary) (ids []string) {
	for _, s := range found.Configuration.Servers {
		if !slices.ContainsFunc(r.nodes, func(n options.Node) bool { return n.ID == string(s.ID) }) {
			ids = append(ids, string(s.ID))
		}
	}
	return ids
}

func (r *recovery) printDone(after *raftlog.Summary) error {
	if _, err := io.WriteString(r.stdout, "\nRecovered:\n"); err != nil {
		return err
	}
	if err := printSummary(r.stdout, after); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.stdout, `
Run the same on each other of these nodes before one is started; all must show recovery %s.
Nodes that are not among them must not be started with their old data: remove their data directories, and add
them under other ids (--join).
`, after.Identity.Recovery)
	return err
}

// rewrite makes r.nodes the configuration of the cluster. For this it replays the log into a
// temporary table.
func (r *recovery) rewrite(who *raftlog.Identity) (raftlog.Summary, error) {
	failed := make(chan error, 1)
	machine := replayer(who, func(err error) { failed <- err })
	how := raftlog.Recovery{Servers: voters(r.nodes), ResetTerm: r.resetTerm}
	summary, err := raftlog.Recover(r.dir, how, machine, slog.New(slog.NewTextHandler(r.stderr, nil)))
	if err == nil {
		err = raftlog.Unmark(r.dir) // the leader that the log did not match no longer exists
	}
	select {
	case why := <-failed:
		return summary, errors.Join(why, err)
	default:
		return summary, err
	}
}

// replayer returns the state machine that replays the log of a node that is not running.
func replayer(who *raftlog.Identity, fatal func(error)) raft.FSM {
	clock := cluster.NewClock()
	return cluster.New(cluster.Config{
		Cluster: who.Cluster, Self: cluster.Announcement{ID: who.Node}, Version: version,
		Table: buckets.New(buckets.Config{Clock: clock.Now, Journal: true}), Clock: clock,
		Fatal: fatal,
	}).FSM()
}

func voters(nodes []options.Node) []raft.Server {
	servers := make([]raft.Server, len(nodes))
	for i, n := range nodes {
		servers[i] = raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(n.ID), Address: raft.ServerAddress(n.Addr)}
	}
	return servers
}

func members(nodes []options.Node) []topology.Member {
	list := make([]topology.Member, len(nodes))
	for i, n := range nodes {
		list[i] = topology.Member{ID: n.ID, Raft: n.Addr}
	}
	return list
}

func printSummary(w io.Writer, s *raftlog.Summary) error {
	var b strings.Builder
	if i := s.Identity; i != nil {
		fmt.Fprintf(&b, "cluster      %s\nnode         %s\nstarts       %d\nrecovery     %s\n", i.Cluster, i.Node, i.Boot, orNone(i.Recovery))
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

func orNone(r topology.Recovery) string {
	if r == "" {
		return "none"
	}
	return string(r)
}
