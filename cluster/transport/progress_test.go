package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// slowProxy forwards data to a link at the given rate, in bytes per second, and data from the link at full
// speed. It returns the address of the proxy.
func slowProxy(t *testing.T, to *Link, rate int) raft.ServerAddress {
	t.Helper()
	// Short segments and small buffers, as on a real network.
	narrow := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = errors.Join(syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1400),
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10))
		})
		return errors.Join(err, failed)
	}}
	ln, err := narrow.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to.ln.Addr().String())
			if err != nil {
				_ = in.Close()
				continue
			}
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
			go func() { trickle(out, in, rate); _ = out.Close() }()
		}
	}()
	return raft.ServerAddress(ln.Addr().String())
}

// trickle copies data at the given rate, in bytes per second.
func trickle(to io.Writer, from io.Reader, rate int) {
	const every = 10 * time.Millisecond
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for range ticker.C {
		if _, err := io.CopyN(to, from, int64(rate)*int64(every)/int64(time.Second)); err != nil {
			return
		}
	}
}

// slowTimeout is the message timeout of Raft in the tests of slow connections.
const slowTimeout = 4 * time.Second

func transportOn(t *testing.T, l *Link) *raft.NetworkTransport {
	t.Helper()
	tr := raft.NewNetworkTransport(l.Raft(), 3, slowTimeout, io.Discard)
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Errorf("close the transport: %v", err)
		}
	})
	return tr
}

// answerRaft answers all messages of Raft, and reads the snapshots.
func answerRaft(t *testing.T, tr *raft.NetworkTransport) {
	t.Helper()
	go func() {
		for {
			select {
			case rpc := <-tr.Consumer():
				switch c := rpc.Command.(type) {
				case *raft.AppendEntriesRequest:
					rpc.Respond(&raft.AppendEntriesResponse{LastLog: uint64(len(c.Entries)), Success: true}, nil)
				case *raft.InstallSnapshotRequest:
					n, err := io.Copy(io.Discard, rpc.Reader)
					rpc.Respond(&raft.InstallSnapshotResponse{Success: n == c.Size}, err)
				}
			case <-t.Context().Done():
				return
			}
		}
	}()
}

// entries returns a request whose entries have bytesInAll bytes in total.
func entries(bytesInAll int) *raft.AppendEntriesRequest {
	const each = 4 << 10
	r := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3}, Term: 1, PrevLogEntry: 1}
	for i := range bytesInAll / each {
		r.Entries = append(r.Entries, &raft.Log{Index: uint64(i + 2), Term: 1, Data: bytes.Repeat([]byte{byte(i)}, each)})
	}
	return r
}

// TestSlowLink checks that long messages pass a slow connection, on which they take much
// longer than the timeout of Raft. It sends single messages, a pipeline, and a snapshot.
func TestSlowLink(t *testing.T) {
	const rate, size = 64 << 10, 512 << 10 // each kind of message takes at least eight seconds
	s := newSite(t)
	var all sync.WaitGroup // the tests run concurrently, since they mostly wait
	defer all.Wait()
	for name, config := range map[string]func(node string) Config{"insecure": plain, "TLS": s.config} {
		n1, n2 := open(t, config("n1")), open(t, config("n2"))
		there, here := transportOn(t, n2), transportOn(t, n1)
		answerRaft(t, there)
		addr := slowProxy(t, n2, rate)
		for kind, send := range map[string]func() error{
			"message": func() error {
				return here.AppendEntries("n2", addr, entries(size), &raft.AppendEntriesResponse{})
			},
			"pipeline": func() error {
				return pipelined(here, addr, entries(size*3/4), entries(size*3/4))
			},
			"snapshot": func() error {
				r := &raft.InstallSnapshotRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3}, SnapshotVersion: 1, Term: 1, Size: size}
				return here.InstallSnapshot("n2", addr, r, &raft.InstallSnapshotResponse{}, bytes.NewReader(make([]byte, size)))
			},
		} {
			all.Go(func() {
				begun := time.Now()
				if err := send(); err != nil {
					t.Errorf("%s, %s: the call fails after %v with %v; want success", name, kind, time.Since(begun), err)
				}
				if took := time.Since(begun); took < slowTimeout*3/2 {
					t.Errorf("%s, %s: the call takes only %v, so the connection is not slow; want at least 6 s", name, kind, took)
				}
			})
		}
	}
}

// pipelined sends messages in a pipeline, and waits for the answers.
func pipelined(tr *raft.NetworkTransport, addr raft.ServerAddress, all ...*raft.AppendEntriesRequest) (err error) {
	p, err := tr.AppendEntriesPipeline("n2", addr)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() {
		for range all {
			if err := (<-p.Consumer()).Error(); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	for _, r := range all {
		if _, err := p.AppendEntries(r, &raft.AppendEntriesResponse{}); err != nil {
			return errors.Join(err, p.Close())
		}
	}
	return errors.Join(<-failed, p.Close())
}

// TestSilentPeer checks that AppendEntries fails after the timeout of Raft if the peer neither reads nor
// answers. The small message fits in the buffers of the system, the large message does not.
func TestSilentPeer(t *testing.T) {
	for name, size := range map[string]int{"answers nothing": 4 << 10, "takes nothing": 32 << 20} {
		t.Run(name, func(t *testing.T) {
			n1, n2 := open(t, plain("n1")), open(t, plain("n2"))
			tr := transportOn(t, n1)
			begun := time.Now()
			err := tr.AppendEntries("n2", raft.ServerAddress(n2.ln.Addr().String()), entries(size), &raft.AppendEntriesResponse{})
			if err == nil || !strings.Contains(err.Error(), os.ErrDeadlineExceeded.Error()) { // Raft does not wrap the error
				t.Errorf("AppendEntries returns %v; want an expired deadline", err)
			}
			if took := time.Since(begun); took < slowTimeout || took > patience/2 {
				t.Errorf("AppendEntries returns after %v; want 4 s to 1 min", took)
			}
		})
	}
}

// inProgress returns both ends of a pipe, the first one with progress deadlines.
func inProgress() (near *progressConn, far net.Conn) {
	near = &progressConn{queued: func() int64 { return 0 }}
	near.Conn, far = net.Pipe()
	return near, far
}

// TestProgress sets a deadline of two seconds. The peer reads or sends some bytes at intervals, and then
// stops. The test checks the time at which the connection fails.
func TestProgress(t *testing.T) {
	const second = time.Second
	for _, test := range []struct {
		name  string
		bytes int
		every time.Duration
		times int
		ends  time.Duration // time of the failure; 0: all bytes pass
	}{
		{"nothing", 0, second, 0, 2 * second},
		{"quick", 4 * leastRate, second, 10, 0},
		{"just quick enough", leastRate + 1, second, 10, 0},
		{"stops", 4 * leastRate, second, 5, 7 * second},
		{"long pauses", 64 * leastRate, 3 * second, 10, 2 * second},
		{"a byte now and then", 1, second, 100, 2*second + second/4},
		{"too slow", leastRate / 2, second, 100, 3*second + second/4},
	} {
		for way, do := range map[string]func(near *progressConn, far net.Conn, all int) error{
			"write": func(near *progressConn, _ net.Conn, all int) error {
				_, err := near.Write(make([]byte, all))
				return err
			},
			"read": func(near *progressConn, _ net.Conn, all int) error {
				_, err := io.ReadFull(near, make([]byte, all))
				return err
			},
		} {
			t.Run(way+" "+test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					near, far := inProgress()
					var other sync.WaitGroup
					defer other.Wait()
					defer func() { _ = near.Close() }()
					begun := time.Now()
					if err := near.SetDeadline(begun.Add(2 * second)); err != nil {
						t.Fatal(err)
					}
					other.Go(func() { peer(far, way == "read", test.bytes, test.every, test.times) })
					all := max(1, test.bytes*test.times)
					if test.ends > 0 {
						all++
					}
					err := do(near, far, all)
					took := time.Since(begun)
					if test.ends == 0 && err != nil || test.ends > 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("the call returns after %v with %v; want an expired deadline, or nil if all bytes pass", took, err)
					}
					if test.ends > 0 && (took < test.ends-second/4 || took > test.ends+second/4) {
						t.Errorf("the call returns after %v; want %v", took, test.ends)
					}
				})
			})
		}
	}
}

// peer reads or sends some bytes at intervals.
func peer(c net.Conn, sends bool, size int, every time.Duration, times int) {
	buf := make([]byte, size)
	for range times {
		timer := time.NewTimer(every)
		<-timer.C
		move := func() (int, error) { return io.ReadFull(c, buf) }
		if sends {
			move = func() (int, error) { return c.Write(buf) }
		}
		if _, err := move(); err != nil {
			return
		}
	}
}

// TestPastDeadline checks that a deadline in the past interrupts pending calls, and that there is no
// default deadline.
func TestPastDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := inProgress()
		defer func() { _ = near.Close() }()
		for _, deadline := range []time.Time{time.Now().Add(time.Hour), {}} {
			if err := near.SetDeadline(deadline); err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(time.Minute, func() { _ = near.SetDeadline(time.Unix(1, 0)) })
			begun := time.Now()
			if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Minute {
				t.Errorf("Read returns after %v with %v; want an expired deadline after 1 min", time.Since(begun), err)
			}
			if _, err := near.Write([]byte{1}); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Write returns %v; want an expired deadline", err)
			}
			timer.Stop()
		}
		if err := near.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(24*time.Hour, func() { _, _ = far.Write([]byte{1}) })
		if _, err := near.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
	})
}
