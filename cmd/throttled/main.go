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
)

func main() {
	os.Exit(run(os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr))
}

// run is the program with its surroundings as arguments.
func run(args []string, lookupEnv func(string) (string, bool), stdout, stderr io.Writer) int {
	opts, err := options.Load(args, lookupEnv)
	switch {
	case errors.Is(err, options.ErrHelp):
		return check(stderr, options.Help(stdout))
	case errors.Is(err, options.ErrVersion):
		_, err := fmt.Fprintln(stdout, "throttled", version)
		return check(stderr, err)
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "throttled: %v\n(throttled --help lists the options)\n", err)
		return exitUsage
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	p, err := open(opts, stderr)
	if err != nil {
		return check(stderr, err)
	}
	return check(stderr, p.run(ctx))
}

// check turns an error that ends the program into its exit code.
func check(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintf(stderr, "throttled: %v\n", err)
	return exitError
}
