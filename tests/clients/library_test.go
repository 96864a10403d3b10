package clienttests

import (
	"context"
	"fmt"
	"testing"
)

// client is the interface through which the shared tests use a library. Replies are in the
// form that the function plain returns.
type client interface {
	// do runs one command.
	do(ctx context.Context, args ...string) (any, error)
	// pipeline runs commands in one pipeline.
	pipeline(ctx context.Context, commands [][]string) []reply
	// transaction runs commands with the library's API for MULTI and EXEC. The error
	// applies to the whole transaction.
	transaction(ctx context.Context, commands [][]string) ([]reply, error)
	// pinned calls f with a dedicated connection.
	pinned(ctx context.Context, f func(do doFunc) error) error
	close() error
}

type doFunc func(ctx context.Context, args ...string) (any, error)

type reply struct {
	value any
	err   error
}

// settings are the options of a client. The zero value selects the defaults.
type settings struct {
	protocol   int // 0: the library's default
	user       string
	password   string
	clientName string
	// obeyContext enables the cancellation of calls by contexts in libraries that require an option
	// for it.
	obeyContext bool
}

// library is one client library.
type library struct {
	name      string
	open      func(ctx context.Context, addr string, s settings) (client, error)
	protocol  int    // default protocol
	others    []int  // protocols that an option can select
	takesName bool   // the library has an option for the name of the client
	sentName  string // name that the library sends by CLIENT SETINFO; empty if it sends none
	pool      int    // largest number of connections
	dropsERR  bool   // the library removes the prefix ERR from the texts of errors
}

const poolSize = 8

// libraries lists the libraries under test. The pool of go-redis counts twice, since go-redis uses a
// second pool for pipelines.
var libraries = []library{
	{name: "go-redis", open: openGoRedis, protocol: 3, others: []int{2, 3}, takesName: true, sentName: "go-redis", pool: 2 * poolSize},
	{name: "rueidis", open: openRueidis, protocol: 3, others: []int{2}, takesName: true, sentName: "rueidis", pool: poolSize, dropsERR: true},
	{name: "redigo", open: openRedigo, protocol: 2, takesName: true, pool: poolSize},
	{name: "radix", open: openRadix, protocol: 2, others: []int{3}, pool: poolSize},
}

// bench is a client and its server.
type bench struct {
	library
	settings
	client
	server *server
}

// speaks returns the protocol of the client.
func (b *bench) speaks() int {
	if b.settings.protocol != 0 {
		return b.settings.protocol
	}
	return b.library.protocol
}

// eachLibrary runs a test with the default configuration of each library.
func eachLibrary(t *testing.T, test func(t *testing.T, lib library)) {
	for _, lib := range libraries {
		t.Run(lib.name, func(t *testing.T) { test(t, lib) })
	}
}

// eachVariant runs a test with each library in all its variants: its protocols, each with and
// without a password and a name.
func eachVariant(t *testing.T, test func(t *testing.T, lib library, s settings)) {
	eachLibrary(t, func(t *testing.T, lib library) {
		for _, protocol := range append([]int{0}, lib.others...) {
			name := "default"
			if protocol != 0 {
				name = fmt.Sprint("RESP", protocol)
			}
			t.Run(name, func(t *testing.T) { test(t, lib, settings{protocol: protocol}) })
			secured := settings{protocol: protocol, password: "open sesame"}
			t.Run(name+",password", func(t *testing.T) { test(t, lib, secured) })
			if lib.takesName {
				secured.user, secured.clientName = "default", "gateway-7"
				t.Run(name+",user,password,name", func(t *testing.T) { test(t, lib, secured) })
			}
		}
	})
}

// connect starts a server and opens a client.
func connect(t *testing.T, lib library, s settings) *bench {
	t.Helper()
	srv := start(t, s.password)
	return &bench{library: lib, settings: s, client: mustOpen(t, lib, srv.addr, s), server: srv}
}

func mustOpen(t *testing.T, lib library, addr string, s settings) client {
	t.Helper()
	c, err := lib.open(t.Context(), addr, s)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// words converts the arguments of a command to the type that the libraries accept.
func words(args []string) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		list[i] = arg
	}
	return list
}

// plain converts the replies of the libraries to one form: int64, string, []any, error or nil.
func plain(v any) any {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case int:
		return int64(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	}
	return v
}

// replies converts the elements of an array to replies, each with a value or an error.
func replies(list []any) []reply {
	parted := make([]reply, len(list))
	for i, v := range list {
		if err, ok := v.(error); ok {
			parted[i] = reply{err: err}
		} else {
			parted[i] = reply{value: plain(v)}
		}
	}
	return parted
}

// numbers returns the five integers of a decision.
func numbers(v any, err error) (decision, error) {
	if err != nil {
		return decision{}, err
	}
	list, ok := v.([]any)
	if !ok || len(list) != len(decision{}) {
		return decision{}, fmt.Errorf("reply %#v, want five integers", v)
	}
	var d decision
	for i := range list {
		if d[i], ok = list[i].(int64); !ok {
			return decision{}, fmt.Errorf("reply %#v, want five integers", v)
		}
	}
	return d, nil
}

// decision is the reply of CL.THROTTLE.
type decision [5]int64

func (d decision) limited() bool    { return d[0] == 1 }
func (d decision) remaining() int64 { return d[2] }
