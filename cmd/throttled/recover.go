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
	"github.com/throttledhq/throttled/cluster/raftstore"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/topology"
)

const recoverText = `Without nodes, the command only prints the content of the directory.

With nodes, exactly these nodes form the cluster from then on. The node that owns DIR must be one of
them. Stop all nodes, run the command on each remaining node with the same list, and start the node
with the newest entry first. The command prints its plan and asks for confirmation. It fails if a
node of the old or the new cluster is running. Charges that only the lost nodes had are lost: limits
may admit them again.

The new cluster is fenced off: nodes that were not recovered with it can neither vote in it nor join
it nor forward commands to it. Remove their data directories, and add them under other ids. Do not
start them before that: a majority of them can still form the old cluster, and answer clients.`

// recoverFlags holds the flags of "throttled recover".
type recoverFlags struct {
	dir       string
	yes       bool
	resetTerm bool
	gone      idList // nodes that are not probed
	nodes     []options.Node
}

// idList is a flag with the ids of nodes, separated by commas.
type idList []string

// String returns the ids, separated by commas.
func (l *idList) String() string { return strings.Join(*l, ",") }

// Set implements flag.Value.
func (l *idList) Set(text string) error {
	*l = nil
	if text == "" {
		return nil
	}
	for id := range strings.SplitSeq(text, ",") {
		*l = append(*l, strings.TrimSpace(id))
	}
	return nil
}

// recovery holds the state of a run of "throttled recover". The field in is nil if standard input is not a terminal.
type recovery struct {
	recoverFlags
	in             io.Reader
	stdout, stderr io.Writer
}

// bindRecover binds the command "throttled recover".
func bindRecover(f *flag.FlagSet) action {
	r := &recovery{}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		r.in = os.Stdin
	}
	return r.bind(f)
}

func (r *recovery) bind(f *flag.FlagSet) action {
	f.StringVar(&r.dir, "data-dir", "", "`DIR` of the replicated log")
	f.BoolVar(&r.yes, "yes", false, "do not ask for confirmation")
	f.BoolVar(&r.resetTerm, "reset-term", false, "discard a term that is implausibly far ahead of the log, and the vote in it; required on each remaining node")
	f.Var(&r.gone, "gone", "ids of lost `NODES`, separated by commas: their addresses are not checked, for example because another program accepts connections there. A node that is still running would admit the same units again")
	return func(ctx context.Context, nodes []string, stdout, stderr io.Writer) (err error) {
		r.stdout, r.stderr = stdout, stderr
		if r.dir == "" {
			return &usageError{errNoDataDir}
		}
		if r.nodes, err = options.ParseNodes(strings.Join(nodes, " ")); err != nil {
			return &usageError{err}
		}
		return r.run(ctx)
	}
}

// run prints the content of the directory, and recovers the cluster if there are nodes.
func (r *recovery) run(ctx context.Context) error {
	summary, err := raftstore.Inspect(r.dir)
	if err != nil {
		return err
	}
	if err := printSummary(r.stdout, &summary); err != nil || len(r.nodes) == 0 {
		return err
	}
	return r.recover(ctx, &summary)
}

// Errors of a refused recovery.
var (
	errNoDataDir   = errors.New("--data-dir is missing: specify the directory of the replicated log")
	errUnnamed     = errors.New("the node that owns the directory is not in the list: add it, or run the command on another node")
	errAnswering   = errors.New("the address accepts connections: stop all nodes of the cluster first, or list the node in --gone if it is lost and another program uses its address")
	errUnknown     = errors.New("there is no such node")
	errUnresolved  = errors.New("the address cannot be resolved, so the node may be running: list it in --gone if it is lost")
	errInterrupted = errors.New("interrupted: nothing was changed")
	errDeclined    = errors.New("not confirmed: nothing was changed")
	errNoTerminal  = errors.New("standard input is not a terminal: specify --yes to recover without confirmation")
)

// recover makes r.nodes the new cluster if all checks pass and the operator confirms.
func (r *recovery) recover(ctx context.Context, found *raftstore.Summary) error {
	identity := found.Identity
	if identity == nil {
		return fmt.Errorf("recover %s: %w", r.dir, raftstore.ErrNoNode)
	}
	if !slices.ContainsFunc(r.nodes, func(n options.Node) bool { return n.ID == identity.Node }) {
		return fmt.Errorf("recover %s of %s: %w", r.dir, identity.Node, errUnnamed)
	}
	if err := r.prepare(ctx, found); err != nil {
		return fmt.Errorf("recover %s: %w", r.dir, err)
	}
	summary, err := r.rewrite(identity)
	if err != nil {
		return err
	}
	return r.printDone(&summary)
}

// prepare checks that no node is running, prints the plan, and asks for confirmation unless --yes is given. After the
// confirmation it checks again, since a node may have been started meanwhile.
func (r *recovery) prepare(ctx context.Context, found *raftstore.Summary) error {
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
		return errNoTerminal
	}
	if _, err := io.WriteString(r.stdout, "Type yes to recover: "); err != nil {
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

func (r *recovery) printPlan(found *raftstore.Summary) error {
	var b strings.Builder
	b.WriteString("\nNodes of the new cluster:\n")
	for _, n := range r.nodes {
		fmt.Fprintf(&b, "  %s at %s\n", n.ID, n.Addr)
	}
	fmt.Fprintf(&b, "Its recovery: %s\n", found.Identity.NextRecovery(members(r.nodes)))
	if lost := r.lost(found); len(lost) > 0 {
		fmt.Fprintf(&b, "These nodes will be fenced off, and charges that only they have are lost: %s\n", strings.Join(lost, ", "))
	}
	if len(r.gone) > 0 {
		fmt.Fprintf(&b, "WARNING: not checked whether these nodes are running: %s. If such a node is still running, it can admit the same requests again.\n", strings.Join(r.gone, ", "))
	}
	if r.resetTerm {
		fmt.Fprintf(&b, "Term %d and the vote in it will be discarded.\n", found.CurrentTerm)
	}
	if found.Identity.Stale != "" {
		fmt.Fprintf(&b, "WARNING: the cluster has rejected this directory: %s\n", found.Identity.Stale)
	}
	_, err := io.WriteString(r.stdout, b.String())
	return err
}

// lost returns the nodes of the old cluster that are not in the new one.
func (r *recovery) lost(found *raftstore.Summary) (ids []string) {
	for _, s := range found.Configuration.Servers {
		if !slices.ContainsFunc(r.nodes, func(n options.Node) bool { return n.ID == string(s.ID) }) {
			ids = append(ids, string(s.ID))
		}
	}
	return ids
}

func (r *recovery) printDone(after *raftstore.Summary) error {
	if _, err := io.WriteString(r.stdout, "\nRecovered:\n"); err != nil {
		return err
	}
	if err := printSummary(r.stdout, after); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.stdout, `
Run the same command on each other node of the list before any of them is started. All must show recovery %s.
Do not start other nodes with their old data: remove their data directories, and add them under other ids (--join).
`, after.Identity.Recovery)
	return err
}

// rewrite makes r.nodes the configuration of the cluster. It replays the log into a temporary table.
func (r *recovery) rewrite(identity *raftstore.Identity) (raftstore.Summary, error) {
	failed := make(chan error, 1)
	fsm, _, _ := replayer(identity, func(err error) { failed <- err })
	config := raftstore.Recovery{Servers: voters(r.nodes), ResetTerm: r.resetTerm}
	summary, err := raftstore.Recover(r.dir, config, fsm, slog.New(slog.NewTextHandler(r.stderr, nil)))
	if err == nil {
		err = raftstore.CancelSetAside(r.dir) // requested by a process whose log did not match the leader's
	}
	select {
	case cause := <-failed:
		return summary, errors.Join(cause, err)
	default:
		return summary, err
	}
}

// replayer returns the state machine that replays the log of a node that is not running, with its table and its clock.
func replayer(identity *raftstore.Identity, fatal func(error)) (raft.FSM, *buckets.Table, *cluster.Clock) {
	clock := cluster.NewClock()
	table := buckets.New(buckets.Config{Clock: clock.Now, Replicated: true})
	node := cluster.New(cluster.Config{
		Cluster: identity.Cluster, Self: cluster.Announcement{ID: identity.Node}, Version: version,
		Table: table, Clock: clock, Fatal: fatal,
	})
	return node.FSM(), table, clock
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

func printSummary(w io.Writer, s *raftstore.Summary) error {
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
