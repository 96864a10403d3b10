package wal

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/hashicorp/raft"
)

const (
	childDir = "WAL_CHILD_DIR"
	childRun = "WAL_CHILD_RUN"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		run, err := strconv.ParseUint(os.Getenv(childRun), 10, 32)
		if err == nil {
			err = child(dir, run)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child modifies a log until the process is killed. It prints each operation before the operation
// starts, and "done" when the operation has completed.
func child(dir string, run uint64) error {
	fmt.Println("open")
	base, err := newBolt(dir, false)
	if err != nil {
		return err
	}
	l, err := Open(Config{Dir: dir, Base: base, MaxEntries: 40})
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(run, 1))
	model, err := contents(l)
	for term := run << 32; err == nil; term++ {
		op := randomOp(r, model, term)
		if op.entries == nil {
			fmt.Println("delete", op.lo, op.hi, 0, 0)
		} else {
			first, last := op.entries[0], op.entries[len(op.entries)-1]
			fmt.Println("store", first.Index, last.Index, term, len(first.Data))
		}
		if err = op.do(l); err == nil {
			fmt.Println("done")
		}
		_ = op.do(model)
	}
	return err
}

// contents returns the entries of a log.
func contents(l raft.LogStore) (oracle, error) {
	first, err := l.FirstIndex()
	if err != nil {
		return nil, err
	}
	last, err := l.LastIndex()
	all := oracle{}
	for i := first; err == nil && i <= last; i++ {
		var entry raft.Log
		if err = l.GetLog(i, &entry); err == nil {
			all[i] = &entry
		} else if err == raft.ErrLogNotFound {
			err = nil // a gap
		}
	}
	return all, err
}

// TestProcess_Killed repeatedly kills a process that modifies a log, and checks each time
// that the acknowledged operations are in the log.
func TestProcess_Killed(t *testing.T) {
	const runs = 120
	dir, model := t.TempDir(), oracle{}
	r := rand.New(rand.NewPCG(5, 6))
	acknowledged, unfinished := 0, 0
	for run := range uint64(runs) {
		done, pending := runChild(t, dir, run, r.IntN(80))
		for _, op := range done {
			_ = op.do(model)
		}
		acknowledged += len(done)
		if pending.entries != nil || pending.hi > 0 {
			unfinished++
		}
		model = inspect(t, dir, model, pending)
	}
	t.Logf("%d processes were killed, %d of them during an operation; %d operations were acknowledged", runs, unfinished, acknowledged)
	if unfinished < runs/4 || acknowledged < runs*10 {
		t.Errorf("%d processes were killed during an operation, and %d operations were acknowledged; want at least 30 and 1200", unfinished, acknowledged)
	}
}

// runChild starts a process that runs child, and kills the process after the given number of lines of
// output. It returns the acknowledged operations and the pending one, if any.
func runChild(t *testing.T, dir string, run uint64, lines int) (done []op, pending op) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childRun+"="+fmt.Sprint(run+1))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	said := bufio.NewReader(out)
	for n := 0; ; n++ {
		if n == lines+1 {
			must(t, cmd.Process.Kill())
		}
		line, err := said.ReadString('\n')
		if err == io.EOF {
			break
		}
		must(t, err)
		if line == "done\n" {
			done, pending = append(done, pending), op{}
		} else if line != "open\n" {
			pending = parseOp(t, line)
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.Exited() {
		t.Fatalf("the process exited before it was killed: %v", err)
	}
	return done, pending
}

func parseOp(t *testing.T, line string) op {
	t.Helper()
	var what string
	var lo, hi, term uint64
	var size int
	if _, err := fmt.Sscan(line, &what, &lo, &hi, &term, &size); err != nil {
		t.Fatalf("the process printed %q: %v", line, err)
	}
	if what == "delete" {
		return op{lo: lo, hi: hi}
	}
	return op{entries: commands(lo, hi, term, size)}
}

// inspect returns the content of the log in a directory. It fails the test if the content
// is not a valid result of the pending operation.
func inspect(t *testing.T, dir string, before oracle, pending op) oracle {
	t.Helper()
	base, err := newBolt(dir, false)
	must(t, err)
	l, err := Open(Config{Dir: dir, Base: base})
	must(t, err)
	state, err := stateOf(l, before, pending)
	if err != nil {
		t.Fatalf("killed during %v: wrong content: %v", pending, err)
	}
	must(t, l.Close())
	must(t, base.Close())
	return state
}
