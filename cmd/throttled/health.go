package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const healthUsage = `Usage: throttled health [options]

Exits with 0 if the server is ready: it accepts Redis clients and can decide requests. Otherwise
prints the reason on one line and exits with 1. Without options, it checks the server that the
environment (THROTTLED_PORT and others) describes, as in a container.

`

// healthCommand holds the flags of "throttled health".
type healthCommand struct {
	server  clientFlags
	timeout time.Duration
}

// runHealth runs the command "throttled health".
func runHealth(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseHealth(args, stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "throttled health: %v\n(throttled health --help lists the options)\n", err)
		return exitUsage
	}
	if err := c.run(ctx); err != nil {
		_, _ = fmt.Fprintf(stderr, "throttled health: %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		return exitError
	}
	_, err = fmt.Fprintln(stdout, "ready")
	return check(stderr, err)
}

// parseHealth parses the flags. If they request help, it writes the help text to stdout and returns flag.ErrHelp.
func parseHealth(args []string, stdout io.Writer) (*healthCommand, error) {
	c := &healthCommand{}
	f := flag.NewFlagSet("health", flag.ContinueOnError)
	f.SetOutput(io.Discard) // the caller prints errors
	f.Usage = func() {}
	c.server.register(f, "addr")
	f.DurationVar(&c.timeout, "timeout", 2*time.Second, "maximum `DURATION` of the check")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printHelp(stdout, healthUsage, f)
	case err == nil && f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: every argument must belong to an option such as --addr", f.Arg(0))
	case err == nil && c.timeout <= 0:
		err = errors.New("--timeout must be greater than 0")
	}
	return c, err
}

// run returns nil if the server is ready, and otherwise the reason.
func (c *healthCommand) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	logging.Disable() // the error is returned
	client, err := c.server.client(c.timeout)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	text, err := client.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("%s: %w", client.Options().Addr, explain(err))
	}
	return readiness(text)
}

// explain adds the remedy to an error of a client.
func explain(err error) error {
	var timeout net.Error
	switch {
	case redis.HasErrorPrefix(err, "NOAUTH"):
		return errors.New("the server requires a password: set THROTTLED_REQUIREPASS, or give --config or --password-file")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("the server does not answer in time")
	}
	return err
}

// readiness returns nil if a server with this section "server" of INFO is ready, and otherwise the reason.
func readiness(info string) error {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	switch {
	case fields["ready"] == "1":
		return nil
	case fields["not_ready_reason"] != "":
		return errors.New(fields["not_ready_reason"])
	}
	return errors.New("the server does not report whether it is ready: it is not throttled, or an older version")
}
