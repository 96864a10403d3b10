// Command throttled is a rate-limit server that any Redis client can talk to.
//
// This package only wires: it turns options into the parts of the program, connects
// them, and ends them in the reverse order on SIGTERM, SIGINT or SHUTDOWN.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/throttledhq/throttled/options"
)

// version is that of the program; a release build sets it.
var version = "0.1.0-dev"

// Exit codes. A supervisor need not restart a program that was told nonsense.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
	// exitFailed is that of a node that stops because it must not go on, as when its disk has failed: others take
	// over, and a supervisor may start it again.
	exitFailed = 75
)

func main() {
	os.Exit(run(os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr))
}

// command is something that the program does besides serving.
type command struct {
	name, args, help string
	run              func(ctx context.Context, args []string, stdout, stderr io.Writer) int
}

// commands are found by the first argument. A configuration file of such a name can be
// given as ./check.
var commands = []command{
	{"check", "FILE", "verify a snapshot and describe it", runCheck},
	{"dump", "FILE", "print a snapshot as JSON, a line for each key", runDump},
	{"certs", "--cluster NAME NODE ...", "make the certificates of a cluster's nodes", runCerts},
	{"recover", "--data-dir DIR ...", "form a cluster anew that has lost most of its nodes", runRecover},
	{"import", "--from URL ...", "make a snapshot of the keys of redis-cell or Dragonfly", runImport},
}

// run is the program with its surroundings as arguments.
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
	if err := opts.Get().CheckReplication(); err != nil {
		_, _ = fmt.Fprintf(stderr, "throttled: %v\n", err)
		return exitUsage
	}
	p, err := open(opts, stderr)
	if err != nil {
		return check(stderr, err)
	}
	p.hangups = signals
	return check(stderr, p.run(ctx))
}

// help describes the options and the commands.
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

// check turns an error that ends the program into its exit code.
func check(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintf(stderr, "throttled: %v\n", err)
	return exitError
}
