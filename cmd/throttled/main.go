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
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	_ "time/tzdata" // time zones of rules, on systems without a database of time zones, such as an empty container image

	"github.com/throttledhq/throttled/edge/attributes"
	"github.com/throttledhq/throttled/internal/nearest"
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
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run runs the program with the given arguments, environment and streams, and returns its
// exit code.
func run(args, environ []string, stdout, stderr io.Writer) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if len(args) > 0 {
		if c := find(commands(), args[0]); c != nil {
			return node{c, c.name}.execute(ctx, args[1:], stdout, stderr)
		}
	}
	return serve(ctx, args, environ, stdout, stderr)
}

// serve runs the server until ctx is canceled or a client sends SHUTDOWN, and returns the exit code.
func serve(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	signals, ignore := hangups()
	defer ignore()
	opts, err := options.Load(args, options.LookupIn(environ))
	switch {
	case errors.Is(err, options.ErrHelp):
		return check(stderr, printProgramHelp(stdout))
	case errors.Is(err, options.ErrVersion):
		_, err := fmt.Fprintln(stdout, "throttled", version)
		return check(stderr, err)
	case err != nil:
		_, _ = fmt.Fprintf(stderr, "throttled: %v\n(throttled --help lists the options%s)\n", err, meantCommand(args))
		return exitUsage
	}
	format := opts.Get().LogFormat
	if err := checkOptions(opts.Get()); err != nil {
		return failed(stderr, format, err, exitUsage)
	}
	p, err := open(opts, stderr)
	if invalid := new(usageError); errors.As(err, &invalid) {
		return failed(stderr, format, err, exitUsage)
	}
	if err != nil {
		return failed(stderr, format, err, exitError)
	}
	p.warnOfUnknown(environ)
	p.hangups = signals
	p.supervise(options.LookupIn(environ))
	if err := p.run(ctx); err != nil {
		return failed(stderr, format, err, exitError)
	}
	return exitOK
}

// failed prints the error of a server, as a line of its log if the format is "json", and returns the exit code.
func failed(stderr io.Writer, format string, err error, code int) int {
	if format != "json" {
		_, _ = fmt.Fprintf(stderr, "throttled: %v\n", err)
		return code
	}
	slog.New(logHandler(stderr, format, slog.LevelError)).Error("the server has failed", "error", err)
	return code
}

// checkOptions returns an error if the program cannot start with the options, although each value has a valid form.
func checkOptions(o *options.Options) error {
	if err := errors.Join(o.CheckReplication(), o.CheckTLS(), o.CheckUpstream()); err != nil {
		return err
	}
	if _, err := attributes.ParseSources(o.EdgeAttributes); err != nil {
		return fmt.Errorf("option edge-attributes: %w", err)
	}
	return nil
}

// warnOfUnknown logs the environment variables that have the prefix of options, but belong to none. Their values may be
// secrets, so they are not logged.
func (p *program) warnOfUnknown(environ []string) {
	for _, u := range options.UnknownEnv(environ) {
		p.log.Warn("an environment variable has no effect: no option has this name", "name", u.Name, "nearest", u.Near)
	}
}

// meantCommand returns a hint if the first argument is not the name of a file, but similar to the name of a command.
func meantCommand(args []string) string {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return ""
	}
	if _, err := os.Stat(args[0]); err == nil { // #nosec G703 -- the operator chooses the path
		return ""
	}
	near := nearest.Word(args[0], commandNames(commands()))
	if near == "" {
		return ""
	}
	return "; did you mean the command " + near + "?"
}

// check prints err unless it is nil, and returns the exit code.
func check(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintf(stderr, "throttled: %v\n", err)
	return exitError
}
