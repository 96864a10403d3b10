// Command throttled is a rate-limit server that speaks the Redis protocol.
//
// This package creates the parts of the program according to the options, connects them, and stops them in reverse
// order on SIGTERM, SIGINT or SHUTDOWN.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/throttledhq/throttled/edge/attributes"
	"github.com/throttledhq/throttled/options"
)

// version is the version of the program. A release build sets it.
var version = "0.1.0-dev"

// Exit codes. A supervisor should not restart the program after exitUsage.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
	// exitFailed is the exit code if the node cannot continue safely, for example after a disk failure. Other nodes
	// take over, and a supervisor may restart this node.
	exitFailed = 75
)

func main() {
	os.Exit(run(os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr))
}

// command is a subcommand of the program.
type command struct {
	name, args, help string
	run              func(ctx context.Context, args []string, stdout, stderr io.Writer) int
}

// commands lists the subcommands, which are selected by the first argument. A configuration file that has the name of a
// subcommand must be given as a path, for example ./check.
var commands = []command{
	{"check", "FILE", "verify a snapshot and describe it", runCheck},
	{"dump", "FILE", "print a snapshot as JSON, a line for each key", runDump},
	{"certs", "--cluster NAME NODE ...", "create the certificates of the nodes of a cluster", runCerts},
	{"recover", "--data-dir DIR ...", "recover a cluster that has lost its majority", runRecover},
	{"rules", "check|explain|test|import|schema ...", "verify, explain, test or import rules files", runRules},
	{"health", "[--addr HOST:PORT] ...", "exit with 0 if a server is ready, otherwise with 1", runHealth},
	{"import", "--from URL ...", "create a snapshot from redis-cell or Dragonfly", runImport},
}

// run runs the program with the given arguments, environment and streams, and returns its
// exit code.
func run(args []string, lookupEnv func(string) (string, bool), stdout, stderr io.Writer) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if len(args) > 0 {
		for _, c := range commands {
			if c.name == args[0] {
				return c.run(ctx, args[1:], stdout, stderr)
			}
		}
	}
	signals, ignore := hangups()
	defer ignore()
	opts, err := options.Load(args, lookupEnv)
	switch {
	case errors.Is(err, options.ErrHelp):
		return check(stderr, help(stdout))
	case errors.Is(err, options.ErrVersion):
		_, err := fmt.Fprintln(stdout, "throttled", version)
		return check(stderr, err)
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "throttled: %v\n(throttled --help lists the options)\n", err)
		return exitUsage
	}
	if err := checkOptions(opts.Get()); err != nil {
		_, _ = fmt.Fprintf(stderr, "throttled: %v\n", err)
		return exitUsage
	}
	p, err := open(opts, stderr)
	if invalid := new(rulesError); errors.As(err, &invalid) {
		_, _ = fmt.Fprintf(stderr, "throttled: %v\n", err)
		return exitUsage
	}
	if err != nil {
		return check(stderr, err)
	}
	p.hangups = signals
	return check(stderr, p.run(ctx))
}

// checkOptions returns an error if the program cannot start with the options, although each value has a valid form.
func checkOptions(o *options.Options) error {
	if err := o.CheckReplication(); err != nil {
		return err
	}
	if _, err := attributes.ParseSources(o.EdgeAttributes); err != nil {
		return fmt.Errorf("option edge-attributes: %w", err)
	}
	return nil
}

// help writes the help text of the options and the subcommands.
func help(w io.Writer) error {
	if err := options.Help(w); err != nil {
		return err
	}
	text := "\nOther commands\n"
	for _, c := range commands {
		text += fmt.Sprintf("  %-37s%s\n", "throttled "+c.name+" "+c.args, c.help)
	}
	_, err := io.WriteString(w, text)
	return err
}

// check prints err unless it is nil, and returns the exit code.
func check(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintf(stderr, "throttled: %v\n", err)
	return exitError
}
