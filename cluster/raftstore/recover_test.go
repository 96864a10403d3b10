package raftstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/throttledhq/throttled/topology"
)

var oneServer = []raft.Server{{Suffrage: raft.Voter, ID: "a", Address: "127.0.0.1:1"}}

func TestInspect(t *testing.T) {
	dir, ids := createDir(t, state{[]uint64{50, 90}, [][2]uint64{{40, 100}}})
	s := openStore(t, Config{Dir: dir})
	identity, _ := s.Identity()
	must(t, s.Stable().SetUint64([]byte("CurrentTerm"), 12))
	must(t, s.Close())
	must(t, os.Truncate(inCurrent(dir, snapshotsName, ids[0], "state.bin"), 1))
	before := fileTimes(t, dir)
	got, err := Inspect(dir)
	must(t, err)
	damaged := got.Snapshots[len(got.Snapshots)-1]
	if !errors.Is(damaged.Err, ErrDamaged) || damaged.ID != ids[0] {
		t.Errorf("the last snapshot is %+v; want the damaged one, with ErrDamaged", damaged)
	}
	if found := got.Snapshots[0]; found != (SnapshotSummary{ID: ids[1], Index: 90, Term: 1, Size: int64(len("state at 90"))}) {
		t.Errorf("the first snapshot is %+v; want the undamaged one, at index 90", found)
	}
	if *got.Identity != identity {
		t.Errorf("the identity is %+v; want %+v", *got.Identity, identity)
	}
	got.Snapshots, got.Identity = nil, nil
	want := Summary{
		FirstLog: 40, LastLog: 100, LastIndex: 100, LastTerm: 2, CurrentTerm: 12,
		Configuration: raft.Configuration{Servers: threeServers},
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("Inspect returns %+v; want %+v", got, want)
	}
	if after := fileTimes(t, dir); !reflect.DeepEqual(after, before) {
		t.Errorf("the modification times before Inspect are %v, and after it %v; want no change", before, after)
	}
}

// fileTimes returns the files of a directory with their modification times.
func fileTimes(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	times := map[string]time.Time{}
	for _, part := range []string{"", snapshotsName} {
		entries, err := os.ReadDir(inCurrent(dir, part))
		must(t, err)
		for _, e := range entries {
			info, err := e.Info()
			must(t, err)
			times[e.Name()] = info.ModTime()
		}
	}
	return times
}

// TestInspect_Configuration checks that Inspect returns a configuration from the log if it is newer than
// the one in the snapshot.
func TestInspect_Configuration(t *testing.T) {
	dir, _ := createDir(t, state{[]uint64{50}, [][2]uint64{{51, 60}}})
	s := openStore(t, Config{Dir: dir})
	must(t, s.Logs().StoreLog(&raft.Log{Index: 61, Term: 3, Type: raft.LogConfiguration,
		Data: raft.EncodeConfiguration(raft.Configuration{Servers: oneServer})}))
	must(t, s.Close())
	got, err := Inspect(dir)
	if err != nil || got.LastIndex != 61 || got.LastTerm != 3 || !reflect.DeepEqual(got.Configuration.Servers, oneServer) {
		t.Errorf("Inspect returns %+v, %v; want index 61, term 3 and one server", got, err)
	}
}

func TestInspect_Refused(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]error{dir: ErrNoNode, filepath.Join(dir, "none"): os.ErrNotExist} {
		if _, err := Inspect(path); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("Inspect of an empty or missing directory returns %v; want %v and the path", err, want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("after Inspect the directory contains %v, error %v; want nothing", entries, err)
	}
	for _, name := range []string{logName, stableName, identityName} {
		dir := claimed(t, 5)
		must(t, os.Truncate(inCurrent(dir, name), 100))
		if _, err := Inspect(dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s is truncated: Inspect returns %v; want ErrDamaged", name, err)
		}
		must(t, os.Truncate(inCurrent(dir, name), 0))
		if _, err := Inspect(dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s is empty: Inspect returns %v; want ErrDamaged", name, err)
		}
	}
	for _, name := range []string{logName, stableName} {
		dir := claimed(t, 5)
		must(t, os.Remove(inCurrent(dir, name)))
		if _, err := Inspect(dir); !errors.Is(err, ErrDamaged) || strings.Count(err.Error(), name) != 1 {
			t.Errorf("%s is missing: Inspect returns %v; want ErrDamaged and the path once", name, err)
		}
	}
}

// TestRecover recovers one node of three. The node must start, become the leader, and have its
// entries.
func TestRecover(t *testing.T) {
	dir, _ := createDir(t, state{[]uint64{50}, [][2]uint64{{40, 100}}})
	s := openStore(t, Config{Dir: dir})
	must(t, s.Stable().SetUint64([]byte("CurrentTerm"), 12))
	must(t, s.Close())
	summary, err := Recover(dir, Recovery{Servers: oneServer}, &testFSM{}, nil)
	must(t, err)
	if summary.LastIndex != 100 || summary.LastTerm != 2 || summary.CurrentTerm != 2*termStep || summary.LastLog != 0 || !reflect.DeepEqual(summary.Configuration.Servers, oneServer) {
		t.Errorf("Recover returns %+v; want a snapshot at index 100, an empty log, term 2*termStep and one server", summary)
	}
	for range 2 { // a start and a restart
		s = openStore(t, Config{Dir: dir})
		must(t, s.Check())
		m, node := startRaft(t, s)
		for leads := range node.LeaderCh() {
			if leads {
				break
			}
		}
		for range 30 {
			must(t, node.Apply([]byte("entry"), patience).Error())
		}
		if m.restored() != "state at 50 and 50 applied" && !strings.Contains(m.restored(), "applied and") {
			t.Errorf("the node is restored from %q; want the recovered snapshot, or a later one", m.restored())
		}
		must(t, node.Snapshot().Error())
		must(t, node.Shutdown().Error())
		must(t, s.Close())
	}
}

func TestRecover_Refused(t *testing.T) {
	empty := t.TempDir()
	s := openStore(t, Config{Dir: empty})
	_, _, err := s.Claim("cluster", "node")
	must(t, err)
	if _, err := Recover(empty, Recovery{Servers: oneServer}, &testFSM{}, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("Recover of a running node returns %v; want ErrLocked", err)
	}
	must(t, s.Close())
	if _, err := Recover(empty, Recovery{Servers: oneServer}, &testFSM{}, nil); !errors.Is(err, errNothing) {
		t.Errorf("Recover of an empty log returns %v; want errNothing", err)
	}
	gap, _ := createDir(t, state{nil, [][2]uint64{{5, 10}}})
	if _, err := Recover(gap, Recovery{Servers: oneServer}, &testFSM{}, nil); !errors.Is(err, ErrGap) {
		t.Errorf("Recover of a log with a gap returns %v; want ErrGap", err)
	}
	nobody := claimed(t, 5)
	for _, servers := range [][]raft.Server{nil, {oneServer[0], oneServer[0]}} {
		if _, err := Recover(nobody, Recovery{Servers: servers}, &testFSM{}, nil); err == nil {
			t.Errorf("Recover succeeds with the servers %v; want an error", servers)
		}
	}
	reopened := openStore(t, Config{Dir: nobody})
	checkLog(t, reopened.Logs(), 1, 5, 100)
	if i, _ := reopened.Identity(); i.Recovery != "" {
		t.Errorf("after a rejected Recover, the node has the recovery %q; want none", i.Recovery)
	}
}

// TestRecover_Fences checks that nodes recovered with the same servers get the same recovery, even if
// Recover is repeated before they start. After a start, Recover must assign a new recovery.
func TestRecover_Fences(t *testing.T) {
	both := []raft.Server{oneServer[0], {ID: "b", Address: "127.0.0.1:2"}}
	recovered := func(dir string, servers ...raft.Server) topology.Recovery {
		t.Helper()
		before, err := Inspect(dir)
		must(t, err)
		var members []topology.Member
		for _, s := range servers {
			members = append(members, topology.Member{ID: string(s.ID), Raft: string(s.Address)})
		}
		got, err := Recover(dir, Recovery{Servers: servers}, &testFSM{}, nil)
		must(t, err)
		if want := before.Identity.NextRecovery(members); got.Identity.Recovery != want {
			t.Errorf("Recover assigns the recovery %q; want %q, the result of NextRecovery", got.Identity.Recovery, want)
		}
		if got.Identity.Lineage != (Lineage{}) {
			t.Errorf("the lineage still lists processes that were started before the recovery: %+v", got.Identity.Lineage)
		}
		return got.Identity.Recovery
	}
	first, second := claimed(t, 5), claimed(t, 7)
	must(t, func() error {
		s := openStore(t, Config{Dir: first})
		_, err := s.RecordStart("p")
		return errors.Join(err, s.MarkStale("a newer copy exists"), s.Close())
	}())
	r := recovered(first, both[0], both[1])
	if r.Number() != 1 || recovered(second, both[1], both[0]) != r {
		t.Errorf("the first node has the recovery %q; want a recovery with number 1, and the same on the second node", r)
	}
	if alone := recovered(first, oneServer...); alone == r || alone.Number() != 1 {
		t.Errorf("Recover assigns the recovery %q, and with other servers %q; want two different recoveries with number 1", r, alone)
	}
	if again := recovered(first, both...); again != r {
		t.Errorf("Recover repeated with the same servers assigns %q; want %q", again, r)
	}
	s := openStore(t, Config{Dir: first})
	_, _, err := s.Claim("cluster", "node")
	must(t, err)
	_, err = s.RecordStart("p")
	must(t, errors.Join(err, s.Close()))
	if next := recovered(first, both...); next.Number() != 2 {
		t.Errorf("Recover after a start assigns the recovery %q; want a recovery with number 2", next)
	}
}

// TestRecover_Term checks the term after a recovery, and that an implausible term is rejected without
// ResetTerm. The vote and the data about other nodes must be removed.
func TestRecover_Term(t *testing.T) {
	const absurd = ^uint64(0)
	for _, tt := range []struct {
		current uint64
		reset   bool
		want    uint64 // 0 means rejected
	}{
		{7, false, 2 * termStep},
		{7, true, 2 * termStep},
		{2 * termStep, false, 2 * termStep},
		{maxTermAhead, false, maxTermAhead},
		{maxTermAhead, true, 2 * termStep},
		{maxTermAhead + 2, false, 0},
		{absurd, false, 0},
		{absurd, true, 2 * termStep},
	} {
		dir := claimed(t, 5)
		s := openStore(t, Config{Dir: dir})
		must(t, errors.Join(s.Stable().SetUint64([]byte("CurrentTerm"), tt.current), s.Stable().SetUint64([]byte("LastVoteTerm"), tt.current),
			s.Stable().Set([]byte(RememberedKey), []byte("{}")), s.Close()))
		got, err := Recover(dir, Recovery{Servers: oneServer, ResetTerm: tt.reset}, &testFSM{}, nil)
		if tt.want == 0 {
			if !errors.Is(err, ErrTerm) || got.Identity.Recovery != "" || got.LastLog != 5 {
				t.Errorf("term %d: Recover returns the error %v and %+v; want ErrTerm and an unchanged node", tt.current, err, got)
			}
			continue
		}
		if err != nil || got.CurrentTerm != tt.want {
			t.Errorf("term %d, reset %t: the new term is %d, error %v; want %d", tt.current, tt.reset, got.CurrentTerm, err, tt.want)
		}
		s = openStore(t, Config{Dir: dir})
		vote, err := s.Stable().GetUint64([]byte("LastVoteTerm"))
		must(t, err)
		if left, err := s.Stable().Get([]byte(RememberedKey)); vote != 0 || err != nil || len(left) != 0 {
			t.Errorf("term %d: after Recover, the term of the vote is %d, and the data about other nodes is %q, error %v; want term 0 and no data", tt.current, vote, left, err)
		}
	}
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	_, _, err := s.Claim("cluster", "node")
	must(t, err)
	must(t, errors.Join(s.Logs().StoreLog(&raft.Log{Index: 1, Term: absurd, Type: raft.LogNoop}), s.Close()))
	if _, err := Recover(dir, Recovery{Servers: oneServer, ResetTerm: true}, &testFSM{}, nil); err == nil || !strings.Contains(err.Error(), "empty data directories") {
		t.Errorf("Recover with an absurd term of the newest entry returns %v; want an error that recommends empty data directories", err)
	}
}
