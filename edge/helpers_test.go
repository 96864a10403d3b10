package edge

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/options"
)

// fakeAccess is an Access.
type fakeAccess struct {
	password string
	refused  bool // no client may connect
	err      error
}

func (a *fakeAccess) Accepts(net.Addr) bool  { return !a.refused }
func (a *fakeAccess) RequiresPassword() bool { return a.password != "" }

func (a *fakeAccess) Authenticate(_ net.Addr, password []byte) error {
	if a.err != nil {
		return a.err
	}
	if string(password) != a.password {
		return errPassword
	}
	return nil
}

type textError string

func (e textError) Error() string { return string(e) }

const errPassword = textError("wrong password")

// fakeRunner is a decision.Runner that answers all commands with the same reply, and records the commands.
type fakeRunner struct{ fake *fake }

func (r fakeRunner) Run(commands, replies []byte) ([]byte, error) {
	r.fake.commands = append(r.fake.commands, commandsOf(string(commands))...)
	for range strings.Count(string(commands), "*") {
		replies = append(replies, r.fake.reply...)
	}
	return replies, r.fake.runError
}

func (fakeRunner) Close() {}

// commandsOf returns commands without their lengths, with their words separated by spaces.
func commandsOf(text string) (out []string) {
	for _, command := range strings.Split(text, "*")[1:] {
		var words []string
		lines := strings.Split(command, "\r\n")
		for i := 2; i < len(lines); i += 2 {
			words = append(words, lines[i])
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// fake is a server with fake parts, and the values with which they answer.
type fake struct {
	*Server
	access   fakeAccess
	options  options.Options
	reply    string
	runError error
	ready    error
	rules    string
	rulesErr error
	commands []string
	addr     string
}

// newFake starts a Server whose replies are those of an admitted request.
func newFake(tb testing.TB, change func(f *fake)) *fake {
	tb.Helper()
	f := &fake{options: options.Default(), reply: admitted}
	if change != nil {
		change(f)
	}
	s, err := New(Config{
		Options: &f.options,
		Checker: decision.New(func() decision.Runner { return fakeRunner{f} }),
		Access:  &f.access,
		Ready:   func() error { return f.ready },
		Rules:   func() (uint64, []byte, error) { return uint64(len(f.rules)), []byte(f.rules), f.rulesErr },
		Log:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	f.Server = s
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	f.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	tb.Cleanup(func() {
		_ = s.http.Close()
		if err := <-served; err != nil {
			tb.Errorf("Serve: %v", err)
		}
	})
	return f
}

// Replies to CL.CHECK, and to limiter commands.
const (
	admitted = "%9\r\n$7\r\nlimited\r\n:0\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:4\r\n$11\r\nretry_after\r\n:-1\r\n$11\r\nreset_after\r\n:1500\r\n" +
		"$4\r\nname\r\n$5\r\nlogin\r\n$5\r\nflags\r\n~0\r\n$6\r\nlimits\r\n*1\r\n" +
		"%8\r\n$4\r\nname\r\n$5\r\nlogin\r\n$6\r\nwindow\r\n$2\r\n1m\r\n$7\r\nlimited\r\n:0\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:4\r\n$11\r\nretry_after\r\n:-1\r\n$11\r\nreset_after\r\n:1500\r\n$5\r\nflags\r\n~0\r\n" +
		"$7\r\nversion\r\n:7\r\n"
	refused = "%9\r\n$7\r\nlimited\r\n:1\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:0\r\n$11\r\nretry_after\r\n:2500\r\n$11\r\nreset_after\r\n:9000\r\n" +
		"$4\r\nname\r\n$5\r\nlogin\r\n$5\r\nflags\r\n~1\r\n$4\r\nwarn\r\n$6\r\nlimits\r\n*1\r\n" +
		"%8\r\n$4\r\nname\r\n$5\r\nlogin\r\n$6\r\nwindow\r\n$2\r\n1m\r\n$7\r\nlimited\r\n:1\r\n$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:0\r\n$11\r\nretry_after\r\n:2500\r\n$11\r\nreset_after\r\n:9000\r\n$5\r\nflags\r\n~0\r\n" +
		"$7\r\nversion\r\n:7\r\n"
	fiveIntegers = "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2000\r\n"
)

// exchange sends a request on a new connection, and returns the response and its body.
func (f *fake) exchange(tb testing.TB, request string) (*http.Response, string) {
	tb.Helper()
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		tb.Fatalf("dial: %v", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, request); err != nil {
		tb.Fatalf("write: %v", err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		tb.Fatalf("read the response to %.200q: %v", request, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatalf("read the body: %v", err)
	}
	return response, string(body)
}

// get sends a GET with headers, each of the form "Name: value".
func (f *fake) get(tb testing.TB, target string, headers ...string) (*http.Response, string) {
	tb.Helper()
	lines := append([]string{"GET " + target + " HTTP/1.1", "Host: localhost"}, headers...)
	return f.exchange(tb, strings.Join(lines, "\r\n")+"\r\n\r\n")
}

// post sends a POST with a JSON body.
func (f *fake) post(tb testing.TB, target, body string, headers ...string) (*http.Response, string) {
	tb.Helper()
	lines := append([]string{"POST " + target + " HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Content-Length: " + text(int64(len(body)))}, headers...)
	return f.exchange(tb, strings.Join(lines, "\r\n")+"\r\n\r\n"+body)
}

func mustNetwork(text string) netip.Prefix { return netip.MustParsePrefix(text) }
