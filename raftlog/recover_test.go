package raftlog

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

var oneServer = []raft.Server{{Suffrage: raft.Voter, ID: "a", Address: "127.0.0.1:1"}}

func TestInspect(t *testing.T) {
	dir, ids := made(t, state{[]uint64{50, 90}, [][2]uint64{{40, 100}}})
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
		t.Errorf("the damaged snapshot is shown as %+v", damaged)
	}
	if found := got.Snapshots[0]; found != (SnapshotSummary{ID: ids[1], Index: 90, Term: 1, Size: int64(len("state at 90"))}) {
		t.Errorf("the other snapshot is shown as %+v", found)
	}
	if *got.Identity != identity {
		t.Errorf("the identity is shown as %+v; want %+v", *got.Identity, identity)
	}
	got.Snapshots, got.Identity = nil, nil
	want := Summary{
		FirstLog: 40, LastLog: 100, LastIndex: 100, LastTerm: 2, CurrentTerm: 12,
		Configuration: raft.Configuration{Servers: threeServers},
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("inspected %+v; want %+v", got, want)
	}
	if after := fileTimes(t, dir); !reflect.DeepEqual(after, before) {
		t.Errorf("inspecting changes %v into %v", before, after)
	}
}

// fileTimes are the files of a directory, with the time of their last change.
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

// TestInspect_Configuration takes the one of the log where it is newer.
func TestInspect_Configuration(t *testing.T) {
	dir, _ := made(t, state{[]uint64{50}, [][2]uint64{{51, 60}}})
	s := openStore(t, Config{Dir: dir})
	must(t, s.Logs().StoreLog(&raft.Log{Index: 61, Term: 3, Type: raft.LogConfiguration,
		Data: raft.EncodeConfiguration(raft.Configuration{Servers: oneServer})}))
	must(t, s.Close())
	got, err := Inspect(dir)
	if err != nil || got.LastIndex != 61 || got.LastTerm != 3 || !reflect.DeepEqual(got.Configuration.Servers, oneServer) {
		t.Errorf("inspected %+v, %v", got, err)
	}
}

func TestInspect_Refused(t *testing.T) {
	dir := t.TempDir()
	if _, err := Inspect(dir); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), dir) {
		t.Errorf("an empty directory: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("inspecting makes %v, %v", entries, err)
	}
	for _, name := range []string{logName, stableName, identityName} {
		dir := claimed(t, 5)
		must(t, os.Truncate(inCurrent(dir, name), 100))
		if _, err := Inspect(dir); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s is cut: %v", name, err)
		}
	}
}

// TestRecover lets one node of three go on alone: it starts, leads, and has what it had.
func TestRecover(t *testing.T) {
	dir, _ := made(t, state{[]uint64{50}, [][2]uint64{{40, 100}}})
	s := openStore(t, Config{Dir: dir})
	must(t, s.Stable().SetUint64([]byte("CurrentTerm"), 12))
	must(t, s.Close())
	summary, err := Recover(dir, oneServer, &machine{}, nil)
	must(t, err)
	if summary.LastIndex != 100 || summary.LastTerm != 2 || summary.CurrentTerm != 12 || summary.LastLog != 0 || !reflect.DeepEqual(summary.Configuration.Servers, oneServer) {
		t.Errorf("recovered %+v", summary)
	}
	for range 2 { // and starts again
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
			t.Errorf("restored %q", m.restored())
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
	if _, err := Recover(empty, oneServer, &machine{}, nil); !errors.Is(err, ErrLocked) {
		t.Errorf("recovered a node that runs: %v", err)
	}
	must(t, s.Close())
	if _, err := Recover(empty, oneServer, &machine{}, nil); !errors.Is(err, errNothing) {
		t.Errorf("recovered an empty log: %v", err)
	}
	gap, _ := made(t, state{nil, [][2]uint64{{5, 10}}})
	if _, err := Recover(gap, oneServer, &machine{}, nil); !errors.Is(err, ErrGap) {
		t.Errorf("recovered a log with a gap: %v", err)
	}
	nobody := claimed(t, 5)
	for _, servers := range [][]raft.Server{nil, {oneServer[0], oneServer[0]}} {
		if _, err := Recover(nobody, servers, &machine{}, nil); err == nil {
			t.Errorf("recovered a cluster of %v", servers)
		}
	}
	checkLog(t, openStore(t, Config{Dir: nobody}).Logs(), 1, 5, 100)
}
