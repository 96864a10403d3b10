package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const healthText = `The server is ready if it accepts Redis clients and can decide requests. Otherwise the reason is
printed on one line. Without options, the command checks the server that the environment
(THROTTLED_PORT and others) describes, as in a container.`

// healthCommand holds the flags of "throttled health".
type healthCommand struct {
	server  clientFlags
	timeout time.Duration
}

// bindHealth binds the command "throttled health".
func bindHealth(f *flag.FlagSet) action {
	c := &healthCommand{}
	c.server.register(f, "addr")
	f.DurationVar(&c.timeout, "timeout", 2*time.Second, "maximum `DURATION` of the check")
	return func(ctx context.Context, _ []string, stdout, _ io.Writer) error {
		if c.timeout <= 0 {
			return wrongUsage("--timeout must be greater than 0")
		}
		usage := new(usageError)
		switch err := c.run(ctx); {
		case errors.As(err, &usage):
			return usage
		case err != nil:
			return errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
		}
		_, err := fmt.Fprintln(stdout, "ready")
		return err
	}
}

// run returns nil if the server is ready, and otherwise the reason.
func (c *healthCommand) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	client, err := c.server.client(c.timeout)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	text, err := client.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("%s: %w", client.Options().Addr, c.server.explain(err))
	}
	return readiness(text)
}

// explain adds the remedy to an error of the client.
func (c *clientFlags) explain(err error) error {
	var timeout net.Error
	var noTLS tls.RecordHeaderError
	closed := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch {
	case errors.As(err, &noTLS):
		return errors.New("the port is not one for TLS: omit --tls, or specify the address of tls-port")
	case closed && !c.tls:
		return errors.New("the server has closed the connection: if the port is one for TLS, specify --tls and --cacert")
	case closed: // for example gRPC over TLS, which requires its own protocol
		return errors.New("the server has closed the connection: if the port is not one for Redis clients, specify the address of tls-port")
	case strings.Contains(err.Error(), `"HTTP/1.`): // the first line of the reply, in an error without a type
		return errors.New("the port is one for HTTP: specify the address of port, or with --tls that of tls-port")
	case redis.HasErrorPrefix(err, "NOAUTH"):
		return errors.New("the server requires a password: set THROTTLED_REQUIREPASS or THROTTLED_REQUIREPASS_FILE, or specify --config or --password-file")
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
