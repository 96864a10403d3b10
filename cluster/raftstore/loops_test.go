package raftstore

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestInstallGuard(t *testing.T) {
	type note struct {
		second float64
		index  uint64
		want   error
	}
	for what, notes := range map[string][]note{
		"a loop":               {{0, 7, nil}, {1, 7, nil}, {2, 7, ErrInstallLoop}, {3, 7, ErrInstallLoop}},
		"within the minute":    {{0, 7, nil}, {59, 7, nil}, {60, 7, ErrInstallLoop}},
		"slower than a minute": {{0, 7, nil}, {30, 7, nil}, {61, 7, nil}, {92, 7, nil}, {120, 7, ErrInstallLoop}},
		"with progress":        {{0, 7, nil}, {1, 8, nil}, {2, 9, nil}, {3, 10, nil}, {4, 11, nil}},
		"with others between":  {{0, 7, nil}, {1, 8, nil}, {2, 7, nil}, {3, 8, nil}, {4, 7, ErrInstallLoop}, {5, 9, nil}},
		"a loop at index 0":    {{0, 0, nil}, {1, 0, nil}, {2, 0, ErrInstallLoop}},
	} {
		var g InstallGuard
		begin := time.Now()
		for i, n := range notes {
			err := g.Note(n.index, begin.Add(time.Duration(n.second*float64(time.Second))))
			if !errors.Is(err, n.want) || (err == nil) != (n.want == nil) {
				t.Errorf("%s, install %d: Note returns %v; want %v", what, i, err, n.want)
			}
		}
	}
}

func TestTransferGuard(t *testing.T) {
	refused := raft.ErrLeadershipTransferInProgress
	type note struct {
		second float64
		err    error
		want   error
	}
	for what, notes := range map[string][]note{
		"stuck":                {{0, refused, nil}, {1, refused, nil}, {2, refused, nil}, {2.01, refused, ErrStuckTransfer}, {3, refused, ErrStuckTransfer}},
		"success between":      {{0, refused, nil}, {1.9, nil, nil}, {2.1, refused, nil}, {4.2, refused, ErrStuckTransfer}},
		"other errors between": {{0, refused, nil}, {1.9, raft.ErrNotLeader, nil}, {2.1, refused, nil}, {4.1, refused, nil}},
		"no refusal":           {{0, nil, nil}, {100, raft.ErrEnqueueTimeout, nil}, {200, nil, nil}},
	} {
		var g TransferGuard
		begin := time.Now()
		for i, n := range notes {
			err := g.Note(n.err, begin.Add(time.Duration(n.second*float64(time.Second))))
			if !errors.Is(err, n.want) || (err == nil) != (n.want == nil) {
				t.Errorf("%s, call %d: Note returns %v; want %v", what, i, err, n.want)
			}
		}
	}
}
