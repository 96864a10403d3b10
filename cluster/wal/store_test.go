package wal

import (
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// stepsOf calls op and returns the steps that the machine executes meanwhile: operations on the files
// and on Base.
func (m *machine) stepsOf(op func()) []string {
	m.mu.Lock()
	n := len(m.ops)
	m.mu.Unlock()
	op()
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.ops[n:])
}

// TestStoreLogs_Steps checks the steps of each kind of StoreLogs call, and their order.
func TestStoreLogs_Steps(t *testing.T) {
	m := newMachine()
	c := m.config()
	c.MaxEntries = 100
	l := openLog(t, c)
	for _, tc := range []struct {
		what    string
		entries []*raft.Log
		want    string
	}{
		{"nothing", nil, ""},
		{"one entry", commands(1, 1, 1, 5), "write, sync"},
		{"twenty", commands(2, 21, 1, 500), "write, sync"},
		{"after a gap", commands(30, 31, 1, 5), "store 1-21, remove, create, sync names, store 30-31"},
		{"following", commands(32, 33, 1, 5), "write, sync"},
		{"overwriting", commands(31, 32, 2, 5), "store 32-33, remove, create, sync names, store 31-32"},
		{"overwriting again", commands(33, 33, 2, 5), "sync names, store 33-33"},
		{"with a gap in it", slices.Concat(commands(34, 34, 2, 5), commands(36, 36, 2, 5)), "sync names, store 34-36"},
	} {
		steps := m.stepsOf(func() { must(t, l.StoreLogs(tc.entries)) })
		if got := strings.Join(steps, ", "); got != tc.want {
			t.Errorf("%s: the steps are %s; want %s", tc.what, got, tc.want)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if first, last := m.base.bounds(); first != 1 || last != 36 || m.base[31].Term != 2 {
		t.Errorf("Base has entries %d to %d, and entry 31 is %+v; want 1 to 36, and term 2", first, last, m.base[31])
	}
}

// TestStoreLogs_NoSync checks that StoreLogs does not sync if Config.Sync is false, and that a full
// file is removed after its entries have been moved.
func TestStoreLogs_NoSync(t *testing.T) {
	m := newMachine()
	c := m.config()
	c.Sync = false
	l := openLog(t, c)
	steps := m.stepsOf(func() {
		must(t, l.StoreLogs(commands(1, 4, 1, 5)))
		must(t, l.StoreLogs(commands(5, 5, 1, 5)))
		must(t, l.runExclusive(func() error { return nil })) // waits for the end of the move
	})
	want := []string{"create", "remove", "store 1-4", "write", "write"}
	if slices.Sort(steps); !slices.Equal(steps, want) {
		t.Errorf("the steps are %q; want %q", steps, want)
	}
}

// TestStoreLogs_Waits checks that StoreLogs blocks when both files are full and their entries cannot
// be moved to Base, and that reads do not block.
func TestStoreLogs_Waits(t *testing.T) {
	m := newMachine()
	m.blocked = make(chan struct{})
	l := openLog(t, m.config())
	for i := uint64(1); i <= 8; i++ {
		must(t, l.StoreLog(command(i, 1, 5))) // does not block: two files of four entries each
	}
	stored := make(chan error, 1)
	go func() { stored <- l.StoreLog(command(9, 1, 5)) }()
	for l.writeMu.TryLock() { // until the call has started
		l.writeMu.Unlock()
	}
	checkReads(t, l, 8) // reads do not block
	select {
	case err := <-stored:
		t.Fatalf("StoreLogs returns %v; want it to block", err)
	default:
	}
	close(m.blocked)
	must(t, <-stored)
	checkReads(t, l, 9)
}

// checkReads checks that the log has entries 1 to last.
func checkReads(t *testing.T, l *Log, last uint64) {
	t.Helper()
	want := oracle{}
	want.store(commands(1, last, 1, 5))
	checkLog(t, l, want)
}

// TestStoreLogs_KeepsNoStructures checks that StoreLogs copies the raft.Log structures, since the
// caller may reuse them.
func TestStoreLogs_KeepsNoStructures(t *testing.T) {
	l := openLog(t, newMachine().config())
	entry := command(1, 1, 5)
	for i := range uint64(30) {
		*entry = *command(i+1, 1, 5)
		must(t, l.StoreLog(entry))
	}
	checkReads(t, l, 30)
}

// TestStoreLogs_Allocates checks that StoreLogs does not allocate once its buffers are large
// enough.
func TestStoreLogs_Allocates(t *testing.T) {
	l := openLog(t, Config{Dir: t.TempDir(), Base: &sink{}})
	one := commands(1, 1, 1, 2000)
	store := func() {
		must(t, l.StoreLogs(one))
		one[0].Index++
	}
	for range 2000 {
		store()
	}
	if n := testing.AllocsPerRun(40, store); n > 0 {
		t.Errorf("StoreLogs allocates %v times per call; want 0", n)
	}
}

// TestStoreLogs_ShortWrite checks that a short write without an error is treated as a
// failure.
func TestStoreLogs_ShortWrite(t *testing.T) {
	m := newMachine()
	l := openLog(t, m.config())
	l.active.file = short{l.active.file}
	err := l.StoreLogs(commands(1, 2, 1, 5))
	if err == nil || !strings.Contains(err.Error(), "short write") {
		t.Errorf("StoreLogs returns %v; want an error with the text \"short write\"", err)
	}
	checkFails(t, l, err)
}

type short struct{ file }

func (s short) Write(b []byte) (int, error) { return s.file.Write(b[:len(b)-1]) }
