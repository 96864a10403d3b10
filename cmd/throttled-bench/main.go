package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// A second Ctrl-C terminates the program immediately, even if a target does not reply.
	context.AfterFunc(ctx, cancel)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs the program with the given arguments and streams, and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "throttled-bench: %v\n(throttled-bench -h lists the flags)\n", err)
		return exitUsage
	}
	if err := bench(ctx, c, stdout, stderr); err != nil {
		_, _ = fmt.Fprintf(stderr, "throttled-bench: %v\n", err)
		return exitError
	}
	return exitOK
}

// bench measures all targets and writes the report and, if requested, the plot.
func bench(ctx context.Context, c *config, stdout, stderr io.Writer) error {
	r, err := measureAll(ctx, c, stderr)
	if err != nil {
		return err
	}
	if err := reports[c.output](stdout, r); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if c.plot != "" {
		if err := writePlot(c.plot, r); err != nil {
			return fmt.Errorf("write the plot: %w", err)
		}
	}
	return r.verdict()
}
