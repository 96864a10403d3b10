package wal

import (
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
)

// TestRing_Model compares a ring with a map under random operations.
func TestRing_Model(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var g ring
	model := map[uint64]uint64{}
	next := uint64(5)
	drop := func(from, to uint64) {
		for i := from; i < to; i++ {
			delete(model, i)
		}
	}
	for step := range 20000 {
		switch op := r.IntN(20); {
		case op == 0:
			i := g.first + r.Uint64N(uint64(g.size())+3)
			g.dropBefore(i)
			drop(0, i)
		case op == 1:
			i := g.first + r.Uint64N(uint64(g.size())+3)
			g.dropFrom(i)
			drop(i, next)
			next = g.next
		case op == 2 && g.size() == 0:
			next += r.Uint64N(1000)
		default:
			g.add(&raft.Log{Index: next, Term: uint64(step)})
			model[next] = uint64(step)
			next++
		}
		if g.size() != len(model) {
			t.Fatalf("step %d: the ring holds %d entries; want %d", step, g.size(), len(model))
		}
		for i := min(g.first, g.next) - 2; i < g.next+2; i++ {
			got := g.get(i)
			if term, ok := model[i]; ok != (got != nil) || ok && (got.Term != term || got.Index != i) {
				t.Fatalf("step %d: get(%d) returns %v; the model has term %d for this index (present: %v)", step, i, got, term, ok)
			}
		}
	}
	g.dropBefore(g.next)
	for i := range g.slots {
		if g.slots[i].Index != 0 {
			t.Fatal("the ring retains a removed entry")
		}
	}
}

func TestRing_Newest(t *testing.T) {
	var g ring
	for i := uint64(1); i <= 10; i++ {
		g.add(&raft.Log{Index: i, Data: make([]byte, 904)}) // 1000 bytes as counted by sizeOf
	}
	for _, tc := range []struct {
		n     int
		limit int64
		want  uint64
	}{{3, 1 << 40, 8}, {100, 1 << 40, 1}, {100, 3000, 8}, {100, 1, 10}, {0, 1000, 11}} {
		if got := g.oldestOfNewest(tc.n, tc.limit); got != tc.want {
			t.Errorf("oldestOfNewest(%d, %d) is %d; want %d", tc.n, tc.limit, got, tc.want)
		}
	}
}
