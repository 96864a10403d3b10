package cluster

import (
	"bytes"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/persistence"
)

// pastState is a state whose limiter time advances by a second while it is written.
type pastState struct{ now uint64 }

func (s *pastState) Now() uint64 {
	s.now += uint64(time.Second)
	return s.now
}

func (s *pastState) Records() iter.Seq[limiter.Record] { return slices.Values([]limiter.Record(nil)) }

// TestWriteSeed checks that log time continues from the end of a backup, and that the time by which limiter time was behind the
// wall clock does not count.
func TestWriteSeed(t *testing.T) {
	created := time.Unix(1_000_000, 0)
	var file bytes.Buffer
	info, err := persistence.Write(&file, persistence.Info{Created: created}, &pastState{uint64(5000 * time.Second)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var first, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &again} {
		if err := WriteSeed(w, Seed{Cluster: "c", Info: info, Records: bytes.NewReader(file.Bytes())}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), again.Bytes()) {
		t.Error("the same backup makes different snapshots")
	}
	h, err := readHead(&first)
	if err != nil {
		t.Fatal(err)
	}
	if h.Time != uint64(5002*time.Second) || h.Wall != created.Add(time.Second).UnixNano() || h.Index != SeedIndex || h.Term != SeedTerm || h.Cluster != "c" {
		t.Errorf("the head is %+v; want the time at the end of the backup, and the wall time then", h)
	}
	if !bytes.Equal(first.Bytes(), file.Bytes()) {
		t.Error("the records are not those of the backup")
	}
}
