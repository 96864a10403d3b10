package server

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/persistence"
	"github.com/throttledhq/throttled/topology"
)

// withBackup makes a server send the output of write as its backup.
func withBackup(write func(w io.Writer) error) func(s *Server) {
	return func(s *Server) { s.backups.write = write }
}

// readBackup reads a backup until its end or an error.
func (p *peer) readBackup() (text string, last value) {
	for {
		last = p.ask("CL.BACKUP", "NEXT")
		if last.kind == '-' || last.text == "" {
			return text, last
		}
		text += last.text
	}
}

// TestBackup reads the backup of a table, whose records must be those of the table.
func TestBackup(t *testing.T) {
	t.Parallel()
	table := buckets.New(buckets.Config{Shards: 8})
	s := setup{engine: table, tune: withBackup(func(w io.Writer) error {
		_, err := persistence.Write(w, persistence.Info{}, table, nil)
		return err
	})}.start(t)
	p := s.dial()
	for _, key := range []string{"a", "b"} {
		p.ask("CL.THROTTLE", key, "1", "1", "60")
	}
	p.do(":0\r\n", "CL.BACKUP", "INDEX")
	p.do("+OK\r\n", "CL.BACKUP", "START")
	text, last := p.readBackup()
	if last.kind == '-' {
		t.Fatalf("the backup fails: %s", last)
	}
	keys := map[string]bool{}
	_, err := persistence.Read(bytes.NewReader([]byte(text)), func(r limiter.Record) error {
		keys[string(r.Key)] = true
		return nil
	})
	if err != nil || len(keys) != 2 || !keys["a"] || !keys["b"] {
		t.Errorf("the backup has the keys %v, error %v; want a and b", keys, err)
	}
	p.do(failure(errNoBackup), "CL.BACKUP", "NEXT")
	p.do("+OK\r\n", "CL.BACKUP", "START", "0")
}

// zeros writes zeros until it fails, counts the bytes, and sends the error. The next backup may call it meanwhile.
type zeros struct {
	written atomic.Int64
	ended   chan error
}

func (e *zeros) write(w io.Writer) (err error) {
	for err == nil {
		var n int
		n, err = w.Write(make([]byte, 1000))
		e.written.Add(int64(n))
	}
	e.ended <- err
	return err
}

// TestBackup_Abandoned checks that a backup ends when its client disconnects, resets the connection or starts another one, and
// that the server has not written more than the client has read.
func TestBackup_Abandoned(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(p *peer){
		"disconnect": func(p *peer) { _ = p.Close() },
		"reset":      func(p *peer) { p.do("+RESET\r\n", "RESET") },
		"restart":    func(p *peer) { p.do("+OK\r\n", "CL.BACKUP", "START") },
	} {
		e := &zeros{ended: make(chan error, 2)}
		s := setup{tune: withBackup(e.write)}.start(t)
		p := s.dial()
		p.do("+OK\r\n", "CL.BACKUP", "START")
		if got := p.ask("CL.BACKUP", "NEXT"); len(got.text) != backupPiece {
			t.Errorf("the first piece has %d bytes, want %d", len(got.text), backupPiece)
		}
		s.dial().do(failure(errBackupBusy), "CL.BACKUP", "START")
		leave(p)
		if err := <-e.ended; !errors.Is(err, errBackupAborted) {
			t.Errorf("%s: the writer fails with %v, want errBackupAborted", name, err)
		}
		if written := e.written.Load(); name != "restart" && written > backupPiece+1000 {
			t.Errorf("%s: %d bytes were written, want at most one write more than a piece", name, written)
		}
	}
}

// TestBackup_Replaced replaces a backup that is not read by that of another client. The first client gets an error.
func TestBackup_Replaced(t *testing.T) {
	t.Parallel()
	e := &zeros{ended: make(chan error, 2)}
	s := setup{tune: withBackup(e.write)}.start(t)
	first, second := s.dial(), s.dial()
	first.do("+OK\r\n", "CL.BACKUP", "START")
	s.backups.mu.Lock()
	s.backups.current.touched.Add(-int64(backupIdle / tick))
	s.backups.mu.Unlock()
	second.do("+OK\r\n", "CL.BACKUP", "START")
	<-e.ended
	first.do(failure(errNoBackup), "CL.BACKUP", "NEXT")
	if got := second.ask("CL.BACKUP", "NEXT"); len(got.text) != backupPiece {
		t.Errorf("the backup of the second client ended with that of the first: %s", got)
	}
}

// TestBackup_Fails checks the errors of a backup, also of one that fails after its last byte.
func TestBackup_Fails(t *testing.T) {
	t.Parallel()
	s := setup{tune: withBackup(func(w io.Writer) error {
		_, _ = w.Write([]byte("all"))
		return errors.New("replaced")
	})}.start(t)
	p := s.dial()
	p.do(failure(errNoBackup), "CL.BACKUP", "NEXT")
	p.do(failure(errBackupIndex), "CL.BACKUP", "START", "-1")
	p.do(failure(errBackupIndex), "CL.BACKUP", "START", "x")
	p.do("+OK\r\n", "CL.BACKUP", "START")
	p.do("-ERR the backup has failed, start it again: replaced\r\n", "CL.BACKUP", "NEXT")
	p.do("+OK\r\n", "CL.BACKUP", "START") // the failed backup does not block another one
	start(t, nil).dial().do(failure(errNotBackedUp), "CL.BACKUP", "START")
}

// TestBackup_Follower reads a backup from a follower. CL.BACKUP INDEX is answered by the leader, and CL.BACKUP START waits until
// the follower has applied that entry.
func TestBackup_Follower(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	l.nodes["b"].backups.write = func(w io.Writer) error {
		_, err := w.Write([]byte("backup"))
		return err
	}
	p := l.nodes["b"].dial()
	index := p.ask("CL.BACKUP", "INDEX")
	if index.kind != ':' {
		t.Fatalf("CL.BACKUP INDEX on a follower: %s", index)
	}
	started := make(chan value, 1)
	go func() { started <- p.ask("CL.BACKUP", "START", index.text) }() // waits: the follower has applied less
	l.setStatus(topology.Status{Mode: "sync", Last: 12, Committed: 11, Applied: 11})
	if got := <-started; got.text != "OK" {
		t.Fatalf("CL.BACKUP START %s: %s", index.text, got)
	}
	if text, last := p.readBackup(); text != "backup" || last.kind == '-' {
		t.Errorf("the backup is %q, and the last reply is %s", text, last)
	}
}

// TestBackup_Behind checks that a node that has not applied the entry in time sends no backup.
func TestBackup_Behind(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a", "b")
	l.lead("a")
	n := l.nodes["b"]
	answered := make(chan value, 1)
	p := n.dial()
	begin := time.Now()
	go func() { answered <- p.ask("CL.BACKUP", "START", "9000000") }()
	if got := <-answered; got.kind != '-' || time.Since(begin) < backupWait {
		t.Errorf("after %v: %s, want errBackupBehind after %v", time.Since(begin), got, backupWait)
	}
}
