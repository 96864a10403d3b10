package forward

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/throttledhq/throttled/topology"
)

// dialFunc is a function that implements Dialer.
type dialFunc func(ctx context.Context, id string) (net.Conn, error)

func (f dialFunc) Dial(ctx context.Context, id string) (net.Conn, error) { return f(ctx, id) }

func noNode(context.Context, string) (net.Conn, error) { return nil, errors.New("no route") }

func hangingNode(ctx context.Context, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// leader returns a Dialer that connects to fake nodes. A fake node calls the function reply for each command and
// sends the result. If the result is nil, the node closes the stream.
func leader(reply func(command string) []byte) dialFunc {
	return func(context.Context, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			for in := bufio.NewReader(far); ; {
				command, err := readCommand(in)
				if err != nil {
					return
				}
				answer := reply(command)
				if answer == nil {
					return
				}
				if _, err := far.Write(answer); err != nil {
					return
				}
			}
		}()
		return near, nil
	}
}

// readCommand reads a command, and returns its words with spaces between them.
func readCommand(in *bufio.Reader) (string, error) {
	head, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(strings.Trim(head, "*\r\n"))
	words := make([]string, n)
	for i := range words {
		if _, err = in.ReadString('\n'); err != nil { // the length
			return "", err
		}
		word, err := in.ReadString('\n')
		if err != nil {
			return "", err
		}
		words[i] = strings.TrimSpace(word)
	}
	return strings.Join(words, " "), err
}

func ok(string) []byte { return []byte("+OK\r\n") }

func words(line string) (args [][]byte) {
	for _, w := range strings.Fields(line) {
		args = append(args, []byte(w))
	}
	return args
}

// forwardOne forwards a command to node a, and returns the call with its outcome.
func forwardOne(f *Forwarder, line string, within time.Duration) (Call, error) {
	b := Batch{Calls: []Call{{Args: words(line), Writes: true}}}
	err := f.Forward("a", 2, time.Now().Add(within), &b)
	return b.Calls[0], err
}

// TestFormerLeader checks that a stream to a former leader is closed after Timeouts.FormerLeader, no matter how often
// leadership changed before, and that the stream stays open if the node becomes the leader again.
func TestFormerLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(dialFunc(noNode))
		near, far := net.Pipe()
		defer func() { _ = far.Close() }()
		st := newStream(near, "a", 2)
		f.SetLeader("a")
		f.track(st)
		isOpen := func() bool {
			synctest.Wait()
			return len(f.streams()) > 0
		}
		former := f.Timeouts.FormerLeader
		for range 5 { // in each round, node a leads again before the timeout of its stream
			f.SetLeader("b")
			<-time.After(former * 2 / 3)
			f.SetLeader("a")
			if !isOpen() {
				t.Fatal("a stream to the leader was closed")
			}
		}
		f.SetLeader("")
		<-time.After(former - 1)
		f.SetLeader("b")
		if !isOpen() {
			t.Error("a stream to a former leader was closed before Timeouts.FormerLeader")
		}
		<-time.After(time.Nanosecond)
		if isOpen() {
			t.Error("a stream to a former leader is open after Timeouts.FormerLeader")
		}
		f.Close()
	})
}

// TestStaleView forwards a command to a node that has stopped being the leader after the caller read its view.
// Forward must fail immediately. It must not dial the node, because the dial could block until the deadline.
func TestStaleView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(dialFunc(hangingNode))
		f.SetLeader("a")
		f.SetLeader("c")
		begun := time.Now()
		if call, err := forwardOne(f, "DEL k", time.Hour); err != errNotDialed || call.Outcome != Refused {
			t.Errorf("Forward to a former leader: got error %v, outcome %d, want errNotDialed and Refused", err, call.Outcome)
		}
		if _, err := f.Watch("a", 2, time.Now().Add(time.Hour)); err != errNotDialed {
			t.Errorf("Watch on a former leader: got error %v, want errNotDialed", err)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("Forward and Watch took %v, want 0", took)
		}
		if len(f.slots)+len(f.watches) > 0 {
			t.Error("a stream counts as in use after Forward and Watch have failed")
		}
		f.Close()
	})
}

// TestFull checks that ErrBusy is returned if all streams stay in use, or if too many callers are waiting.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(leader(ok))
		f.SetLeader("a")
		for range maxStreams {
			f.slots <- struct{}{}
		}
		start := time.Now()
		if _, err := forwardOne(f, "DEL k", time.Second); err != ErrBusy || time.Since(start) != time.Second {
			t.Errorf("while all streams are in use: got error %v after %v, want ErrBusy after 1s", err, time.Since(start))
		}
		f.waiting.Store(maxWaiters)
		start = time.Now()
		if _, err := forwardOne(f, "DEL k", time.Second); err != ErrBusy || time.Since(start) != 0 {
			t.Errorf("while maxWaiters callers wait: got error %v after %v, want ErrBusy after 0s", err, time.Since(start))
		}
		f.waiting.Store(0)
		go func() { <-f.slots }()
		if call, err := forwardOne(f, "DEL k", time.Second); err != nil || string(call.Reply) != "+OK\r\n" {
			t.Errorf("after a stream became free: got reply %q, error %v, want +OK and no error", call.Reply, err)
		}
		for range maxWatches {
			f.watches <- struct{}{}
		}
		if _, err := f.Watch("a", 2, time.Now().Add(time.Second)); err != ErrBusy {
			t.Errorf("while maxWatches streams for watching keys are open: Watch returned %v, want ErrBusy", err)
		}
		f.Close()
	})
}

// TestDialsAreFew checks that most concurrent callers reuse a stream that another caller has dialed.
func TestDialsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, all atomic.Int32
		f := New(dialFunc(func(ctx context.Context, id string) (net.Conn, error) {
			all.Add(1)
			raise(&most, now.Add(1))
			defer now.Add(-1)
			<-time.After(2 * time.Millisecond) // duration of a handshake
			return leader(ok)(ctx, id)
		}))
		f.SetLeader("a")
		const callers = 100
		var wait sync.WaitGroup
		for range callers {
			wait.Go(func() {
				if _, err := forwardOne(f, "DEL k", time.Second); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if most.Load() > maxDials || all.Load() == 0 || all.Load() > callers/2 {
			t.Errorf("%d streams were dialed for %d callers, want 1 to 50; up to %d dials were concurrent, want at most maxDials", all.Load(), callers, most.Load())
		}
		f.Close()
	})
}

// TestDialsOfFormerLeader checks that a change of leadership releases all callers that wait for a node that does not
// respond, including those that wait for a dial slot.
func TestDialsOfFormerLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(dialFunc(hangingNode))
		f.SetLeader("a")
		var wait sync.WaitGroup
		for range 4 * maxDials {
			wait.Go(func() {
				if call, err := forwardOne(f, "DEL k", time.Hour); err == nil || call.Outcome != Refused {
					t.Errorf("got error %v, outcome %d, want an error and Refused", err, call.Outcome)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		f.SetLeader("c")
		wait.Wait()
		if took := time.Since(start); took > 0 {
			t.Errorf("the callers returned %v after the change of leadership, want 0s", took)
		}
		f.Close()
	})
}

// TestProtocols checks that a stream is reused only for its version of RESP.
func TestProtocols(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		f := New(leader(func(command string) []byte {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, command)
			return []byte("+OK\r\n")
		}))
		f.SetLeader("a")
		for _, protocol := range []int{2, 3, 2, 3} {
			b := Batch{Calls: []Call{{Args: words("TTL k")}}}
			if err := f.Forward("a", protocol, time.Now().Add(time.Second), &b); err != nil {
				t.Fatal(err)
			}
		}
		f.Close()
		if want := "CLIENT CAPA charged, TTL k, HELLO 3, CLIENT CAPA charged, TTL k, TTL k, TTL k"; strings.Join(got, ", ") != want {
			t.Errorf("the leader received %q, want %q", strings.Join(got, ", "), want)
		}
	})
}

// observedDialer counts the connections that were refused.
type observedDialer struct {
	dialFunc
	refused int
}

func (d *observedDialer) Refused(error) { d.refused++ }

// TestRefused checks that a call is not sent over a connection that the node refuses in its greeting, so that it was not run, and that
// the dialer learns of the refusal once.
func TestRefused(t *testing.T) {
	for _, reply := range []string{"-ERR max number of clients reached\r\n", "-DENIED protected mode\r\n", "-NOAUTH Authentication required.\r\n"} {
		for _, protocol := range []int{2, 3} {
			d := &observedDialer{dialFunc: leader(func(command string) []byte {
				if strings.HasPrefix(command, "DEL") {
					t.Errorf("after %q, the leader received %q", reply, command)
				}
				return []byte(reply)
			})}
			f := New(d)
			f.SetLeader("a")
			b := Batch{Calls: []Call{{Args: words("DEL k"), Writes: true}}}
			err := f.Forward("a", protocol, time.Now().Add(time.Minute), &b)
			refused := new(topology.ConnRefusedError)
			if !errors.As(err, &refused) || refused.Node != "a" || !strings.Contains(err.Error(), strings.TrimSpace(reply[1:])) || b.Calls[0].Outcome != Refused || d.refused != 1 {
				t.Errorf("RESP%d, %q: error %v, outcome %v, %d reports; want a ConnRefusedError with the reply, a refused call, and 1 report", protocol, reply, err, b.Calls[0].Outcome, d.refused)
			}
			f.Close()
		}
	}
}

// TestCharged checks the results of calls to a leader that marks charges, and to a leader that does not.
func TestCharged(t *testing.T) {
	const decision = "*2\r\n:0\r\n:1\r\n"
	for _, tt := range []struct {
		name    string
		known   bool // the leader supports marks
		call    Call
		reply   string // reply to the command or to EXEC
		want    string
		charged bool
		split   int // number of elements of the reply to EXEC
	}{
		{"a charge", true, Call{Args: words("CL.THROTTLE k"), Writes: true}, ChargedMark + decision, decision, true, 0},
		{"a refusal", true, Call{Args: words("CL.THROTTLE k"), Writes: true}, decision, decision, false, 0},
		{"a charge by a leader without marks", false, Call{Args: words("CL.THROTTLE k"), Writes: true}, decision, decision, true, 0},
		{"a read from a leader without marks", false, Call{Args: words("TTL k")}, ":1\r\n", ":1\r\n", false, 0},
		{"a transaction", true, Call{Block: [][][]byte{words("TTL k"), words("CL.THROTTLE k")}, Writes: true},
			"*2\r\n:1\r\n" + ChargedMark + decision, "", true, 2},
		{"a transaction that charges nothing", true, Call{Block: [][][]byte{words("TTL k"), words("CL.THROTTLE k")}, Writes: true},
			"*2\r\n:1\r\n" + decision, "", false, 2},
		{"an aborted transaction", true, Call{Block: [][][]byte{words("TTL k")}}, "*-1\r\n", "*-1\r\n", false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := New(leader(func(command string) []byte {
				switch {
				case strings.HasPrefix(command, "CLIENT") && !tt.known:
					return []byte("-ERR unknown subcommand\r\n")
				case command == "EXEC", tt.call.Block == nil && !strings.HasPrefix(command, "CLIENT"):
					return []byte(tt.reply)
				}
				return []byte("+OK\r\n")
			}))
			f.SetLeader("a")
			b := Batch{Calls: []Call{tt.call}}
			if err := f.Forward("a", 2, time.Now().Add(time.Minute), &b); err != nil {
				t.Fatal(err)
			}
			c := &b.Calls[0]
			if c.Outcome != Answered || c.Charged != tt.charged || len(c.Elements) != tt.split || tt.want != "" && string(c.Reply) != tt.want {
				t.Errorf("the outcome is not Answered, or Reply, Charged or the number of Elements is wrong: %+v", c)
			}
			for _, e := range c.Elements {
				if strings.Contains(string(e), ChargedMark) {
					t.Errorf("the element %q contains a mark", e)
				}
			}
			f.Close()
		})
	}
}

// TestOutcomes forwards five commands to a leader that refuses the first, answers the second, and closes the stream
// at the third. It checks the outcome of each call.
func TestOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(leader(func(command string) []byte {
			switch command {
			case "DEL a":
				return []byte(notLeadingLine)
			case "DEL c":
				return nil
			}
			return []byte("+OK\r\n")
		}))
		f.SetLeader("a")
		b := Batch{}
		for _, line := range []string{"DEL a", "DEL b", "DEL c", "TTL d", "DEL e"} {
			b.Calls = append(b.Calls, Call{Args: words(line), Writes: strings.HasPrefix(line, "DEL")})
		}
		if err := f.Forward("a", 2, time.Now().Add(time.Second), &b); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Forward returned %v, want io.EOF or io.ErrClosedPipe", err)
		}
		for i, want := range []Outcome{Refused, Answered, Uncertain, Refused, Uncertain} {
			if got := b.Calls[i].Outcome; got != want {
				t.Errorf("the outcome of call %d is %d, want %d", i, got, want)
			}
		}
		if commands, errs, uncertain := f.Commands.Load(), f.Errors.Load(), f.Uncertain.Load(); commands != 1 || errs != 2 || uncertain != 2 {
			t.Errorf("Commands is %d, want 1; Errors is %d, and Uncertain %d, want 2", commands, errs, uncertain)
		}
		f.Reset()
		if f.Commands.Load()+f.Errors.Load()+f.Uncertain.Load() != 0 {
			t.Error("Commands, Errors or Uncertain is not 0 after Reset")
		}
		f.Close()
	})
}

// raise sets *most to n if n is larger.
func raise(most *atomic.Int32, n int32) {
	for old := most.Load(); old < n && !most.CompareAndSwap(old, n); {
		old = most.Load()
	}
}
