package server

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// manner is a way of splitting the input of a protocolRow into writes.
type manner struct {
	name  string
	fits  func(row *protocolRow) bool       // reports whether the row can be split this way; nil: every row can
	split func(row *protocolRow) [][]string // returns the chunks to write, for each connection
	ahead bool                              // a PING precedes the row
}

// behind is sent after every row. It is not answered if the row closes the connection.
const behind = ping + "*1\r\n$4\r\nQUIT\r\n"

const shortRow = 120 // bytes; longer rows are not cut at every position

var manners = []manner{
	{
		name:  "at once",
		split: func(row *protocolRow) [][]string { return [][]string{{row.input, behind}} },
	},
	{
		name:  "byte by byte",
		split: func(row *protocolRow) [][]string { return [][]string{append(singly(row.input), behind)} },
	},
	{
		name:  "between two PINGs",
		split: func(row *protocolRow) [][]string { return [][]string{{ping + row.input + behind}} },
		ahead: true,
	},
	{
		name: "cut at every position",
		fits: func(row *protocolRow) bool { return len(row.input) <= shortRow },
		split: func(row *protocolRow) (all [][]string) {
			for i := 1; i < len(row.input); i++ {
				all = append(all, []string{row.input[:i], row.input[i:], behind})
			}
			return all
		},
	},
}

// singly returns the bytes of a row, except those in the middle of a long one, which are one piece: on a busy machine, as many
// writes as a row has bytes take longer than the server waits for a command.
func singly(input string) []string {
	const end = 1 << 10
	if len(input) <= 2*end {
		return strings.Split(input, "")
	}
	middle := input[end : len(input)-end]
	return slices.Concat(strings.Split(input[:end], ""), []string{middle}, strings.Split(input[len(input)-end:], ""))
}

// TestProtocolRows sends every row in every manner, over sockets and over pipes. On a pipe, the
// server reads each write separately.
func TestProtocolRows(t *testing.T) {
	if len(protocolRows) != 89 {
		t.Fatalf("protocolRows has %d rows, want 89", len(protocolRows))
	}
	known, unauthenticated := start(t, nil), start(t, withPassword)
	pipedKnown, knownPipes := setup{}.startPiped(t)
	pipedUnauthenticated, unauthenticatedPipes := setup{options: withPassword}.startPiped(t)
	t.Run("rows", func(t *testing.T) {
		for _, row := range protocolRows {
			socket, pipe := known.connect, knownPipes.connect
			if row.unauthenticated {
				socket, pipe = unauthenticated.connect, unauthenticatedPipes.connect
			}
			t.Run(fmt.Sprintf("%.40q", row.input), func(t *testing.T) {
				t.Parallel()
				runRow(t, &row, "socket", socket)
				runRow(t, &row, "pipe", pipe)
			})
		}
	})
	for _, s := range []*testServer{known, unauthenticated, pipedKnown, pipedUnauthenticated} {
		if keys := s.engine.Usage().Keys; keys != 0 {
			t.Errorf("%d keys were created, want none", keys)
		}
		if panics := s.stats.panics.Load(); panics != 0 {
			t.Errorf("%d handlers panicked, want none", panics)
		}
	}
	known.greet()
}

// connect is like dial, but returns the connection without a peer.
func (s *testServer) connect() net.Conn { return s.dial().Conn }

// runRow sends a row in every applicable manner.
func runRow(t *testing.T, row *protocolRow, over string, connect func() net.Conn) {
	for _, m := range manners {
		if m.fits != nil && !m.fits(row) {
			continue
		}
		for i, pieces := range m.split(row) {
			got, err := exchange(connect(), pieces)
			if err != nil {
				t.Fatalf("%s, %s, connection %d: %v", over, m.name, i, err)
			}
			if !row.answered(got, m.ahead) {
				t.Fatalf("%s, %s, connection %d: got %.300q, want %.300q", over, m.name, i, got, row.replies(m.ahead))
			}
		}
	}
}

// exchange writes chunks and returns all data received until the connection is closed.
func exchange(conn net.Conn, pieces []string) (string, error) {
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	go func() {
		for _, piece := range pieces {
			if _, err := io.WriteString(conn, piece); err != nil {
				return // the connection is already closed; only the replies matter
			}
		}
	}()
	got, err := io.ReadAll(conn)
	if isTimeout(err) {
		return "", fmt.Errorf("the connection is not closed (after %.300q)", got)
	}
	return string(got), nil
}

// replies returns the expected replies to a row and to the commands around it.
func (row *protocolRow) replies(ahead bool) string {
	pong := func(known bool) string {
		if row.unauthenticated && !known {
			return failure(errNoAuth)
		}
		return "+PONG\r\n"
	}
	all := row.want
	if ahead {
		all = pong(false) + all
	}
	if row.end == open {
		all += pong(row.known) + "+OK\r\n"
	}
	return all
}

// answered reports whether the received data matches the row.
func (row *protocolRow) answered(got string, ahead bool) bool {
	want := row.replies(ahead)
	if row.end == cut {
		return strings.HasPrefix(want, got)
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "<n>", "[0-9]+")
	return regexp.MustCompile("^" + pattern + "$").MatchString(got)
}

// TestProtocolErrorIsLast sends a malformed command and then many valid commands before it reads. The client must
// receive the protocol error, and no reply after the error.
func TestProtocolErrorIsLast(t *testing.T) {
	t.Parallel()
	p := start(t, nil).dial()
	p.send("*1\r\n:5\r\n" + strings.Repeat(ping, 10_000))
	p.expect(refused("expected '$', got ':'"))
	p.closed()
}

// TestFailedHelloChangesNothing sends HELLO commands that fail. After that, the protocol must still be RESP2, and the
// client must have no name.
func TestFailedHelloChangesNothing(t *testing.T) {
	t.Parallel()
	f := func(change func(s *testServer) *peer, words ...string) {
		t.Helper()
		p := change(start(t, withPassword))
		if got := p.ask(words...); got.kind != '-' {
			t.Fatalf("%q: got %s, want an error", words, got)
		}
		p.do("+OK\r\n", "AUTH", "secret")
		p.do("$-1\r\n", "CLIENT", "GETNAME")
	}
	unauthenticated := func(s *testServer) *peer { return s.dial() }
	known := func(s *testServer) *peer {
		p := s.dial()
		p.do("+OK\r\n", "AUTH", "secret")
		return p
	}
	f(unauthenticated, "HELLO", "3")
	f(unauthenticated, "HELLO", "3", "SETNAME", "x")
	f(unauthenticated, "HELLO", "3", "AUTH", "default", "bad")
	f(unauthenticated, "HELLO", "3", "AUTH", "other", "secret")
	f(known, "HELLO", "3", "AUTH", "default", "bad", "SETNAME", "x")
	f(known, "HELLO", "3", "SETNAME", "a b")
	f(known, "HELLO", "3", "AUTH", "default")
	f(known, "HELLO", "4")
}

// TestEmptyRequestsLeaveNoState sends empty requests between other commands. They must not change the replies to these
// commands.
func TestEmptyRequestsLeaveNoState(t *testing.T) {
	t.Parallel()
	p := start(t, nil).dial()
	for _, nothing := range []string{"\r\n", "\n", "*0\r\n", "*-1\r\n", "*-9223372036854775808\r\n", " \t \r\n"} {
		p.send(nothing + request("MULTI") + nothing + request("PING") + nothing + "ECHO x\r\n" + nothing + request("EXEC") + nothing)
		p.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+PONG\r\n$1\r\nx\r\n")
	}
}
