package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
)

// masterName is the name of the leader on the Sentinel port.
const masterName = "mymaster"

// client is a library. All commands are calls of CL.THROTTLE, whose replies are five integers. Each command consists of the
// key and the other arguments.
type client interface {
	throttle(ctx context.Context, args []string) ([]int64, error)
	pipeline(ctx context.Context, args []string, n int) ([][]int64, error)
	transaction(ctx context.Context, args []string, n int) ([][]int64, error)
	// ownError reports whether an error has the type of the library for error replies.
	ownError(err error) bool
}

// repeater is a client whose calls this program repeats, because the library does not.
type repeater interface {
	// repeated returns the number of calls that the library failed and the program repeated.
	repeated() int64
}

type library struct {
	module string
	open   func(ctx context.Context, o options) (client, error)
}

var libraries = map[string]library{
	"go-redis": {"github.com/redis/go-redis/v9", openGoRedis},
	"rueidis":  {"github.com/redis/rueidis", openRueidis},
	"redigo":   {"github.com/gomodule/redigo", openRedigo},
	"radix":    {"github.com/mediocregopher/radix/v4", openRadix},
}

const command = "CL.THROTTLE"

var errMode = errors.New("the library does not have this mode")

// tlsConfig returns nil without a CA file.
func (o options) tlsConfig() (*tls.Config, error) {
	if o.caFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.caFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New(o.caFile + " has no certificate")
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// anyArgs converts arguments to the type that the libraries accept.
func anyArgs(args ...string) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		list[i] = arg
	}
	return list
}
