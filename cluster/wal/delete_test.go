package wal

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// TestDeleteRange_Steps checks the order of the operations on the files and on Base. Before entries
// are deleted from Base, Base must have an entry after the deleted range, or all files must have
// been removed.
func TestDeleteRange_Steps(t *testing.T) {
	for _, tc := range []struct {
		what   string
		lo, hi uint64
		want   string
		first  uint64
		last   uint64
		held   int
	}{
		{"some entries of Base", 1, 10, "delete 1-10", 11, 60, 50},
		{"all entries of Base", 1, 20, "store 21-21, delete 1-20", 21, 60, 40},
		{"entries of Base and of the files", 1, 40, "store 21-41, delete 1-40", 41, 60, 20},
		{"all entries but the last", 1, 59, "store 21-60, delete 1-59", 60, 60, 1},
		{"the last entry", 60, 60, "store 21-60, remove, create, sync names, delete 60-60", 1, 59, 59},
		{"the newest entries", 11, 70, "store 21-60, remove, create, sync names, delete 11-70", 1, 10, 10},
		{"all", 0, 60, "store 21-60, remove, create, sync names, delete 0-60", 0, 0, 0},
		{"entries in the middle", 30, 40, "store 21-41, delete 30-40", 1, 60, 20},
	} {
		t.Run(tc.what, func(t *testing.T) {
			m := newMachine()
			c := m.config()
			c.MaxEntries = 100
			l := openLog(t, c)
			must(t, l.StoreLogs(commands(1, 20, 1, 5)))
			must(t, l.runExclusive(l.moveAllAndReset))
			must(t, l.StoreLogs(commands(21, 60, 1, 5)))
			steps := m.stepsOf(func() { must(t, l.DeleteRange(tc.lo, tc.hi)) })
			if got := strings.Join(steps, ", "); got != tc.want {
				t.Errorf("the steps are %s; want %s", got, tc.want)
			}
			want := oracle{}
			want.store(commands(1, 60, 1, 5))
			want.remove(tc.lo, tc.hi)
			checkLog(t, l, want)
			first, _ := l.FirstIndex()
			last, _ := l.LastIndex()
			if first != tc.first || last != tc.last || l.held() != tc.held {
				t.Errorf("the log has entries %d to %d, %d of them in memory; want %d to %d, %d of them in memory", first, last, l.held(), tc.first, tc.last, tc.held)
			}
		})
	}
}

// TestDeleteRange_Watched checks that each file operation is passed to Config.Step.
func TestDeleteRange_Watched(t *testing.T) {
	m := newMachine()
	c := m.config()
	var failure error
	c.Step = func(op func() error) error {
		m.note("<")
		err := op()
		m.note(">")
		return errors.Join(err, failure)
	}
	l := openLog(t, c)
	must(t, l.StoreLogs(commands(1, 3, 1, 5)))
	steps := m.stepsOf(func() { must(t, l.DeleteRange(3, 3)) })
	if got, want := strings.Join(steps, " "), "store 1-3 < remove > < create > < sync names > delete 3-3"; got != want {
		t.Errorf("the steps are %s; want %s", got, want)
	}
	must(t, l.StoreLogs(commands(3, 3, 2, 5)))
	failure = errDisk
	if err := l.DeleteRange(3, 3); !errors.Is(err, errDisk) {
		t.Errorf("DeleteRange returns %v; want errDisk", err)
	}
	checkFails(t, l, errDisk)
}

func (m *machine) note(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ops = append(m.ops, what)
}

// TestDeleteRange_LetsThrough checks that StoreLogs does not block while old entries are being
// deleted from Base.
func TestDeleteRange_LetsThrough(t *testing.T) {
	m := newMachine()
	slow := &slowDelete{baseStore: baseStore{m}, begun: make(chan struct{}), finish: make(chan struct{})}
	c := m.config()
	c.Base, c.MaxEntries = slow, 100
	l := openLog(t, c)
	must(t, l.StoreLogs(commands(1, 20, 1, 5)))
	deleted := make(chan error, 1)
	go func() { deleted <- l.DeleteRange(1, 10) }()
	<-slow.begun
	must(t, l.StoreLogs(commands(21, 99, 1, 5))) // fills the file
	must(t, l.StoreLogs(commands(100, 120, 1, 5)))
	if err := l.GetLog(120, new(raft.Log)); err != nil {
		t.Error(err)
	}
	close(slow.finish)
	must(t, <-deleted)
	want := oracle{}
	want.store(commands(11, 120, 1, 5))
	checkLog(t, l, want)
}

type slowDelete struct {
	baseStore
	begun, finish chan struct{}
}

func (s *slowDelete) DeleteRange(lo, hi uint64) error {
	close(s.begun)
	<-s.finish
	return s.baseStore.DeleteRange(lo, hi)
}
