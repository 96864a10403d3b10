package server

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/limiter"
)

// endless is an engine with an unlimited number of keys, which are all equal. Its method Scan counts the keys that it
// visits.
type endless struct {
	limiter.Engine
	key     []byte
	visited *atomic.Int64
}

func (e endless) Scan(cursor uint64, count int, visit func(key []byte, kind limiter.Kind)) uint64 {
	for range count {
		visit(e.key, limiter.Throttle)
	}
	e.visited.Add(int64(count))
	return cursor + uint64(count)
}

// TestScan_LongKeys checks that a step of SCAN stops when the size of the copied keys reaches scanBytes, even if it has
// visited fewer than COUNT keys. It also checks that KEYS fails when the size of the reply exceeds maxKeysReply.
func TestScan_LongKeys(t *testing.T) {
	t.Parallel()
	const size = 500 << 10
	var visited atomic.Int64
	p := setup{engine: endless{buckets.New(buckets.Config{Shards: 1}), make([]byte, size), &visited}}.start(t).dial()
	step := p.ask("SCAN", "0", "COUNT", "1000").list
	if n := visited.Swap(0); n*size > scanBytes+scanPiece*size || int64(len(step[1].list)) != n || step[0].text != "8" {
		t.Errorf("SCAN visited %d keys and returned %d, want 8 and 8; the cursor is %s, want 8", n, len(step[1].list), step[0])
	}
	p.ask("SCAN", "0", "COUNT", "3", "MATCH", "x")
	if n := visited.Swap(0); n != 3 {
		t.Errorf("SCAN COUNT 3 visited %d keys, want 3", n)
	}
	p.do(failure(errManyKeys), "KEYS", "*")
	if n := visited.Swap(0); n*size > maxKeysReply+scanBytes+scanPiece*size {
		t.Errorf("KEYS visited %d keys of %d bytes, want at most maxKeysReply bytes in all, plus the keys of one step", n, size)
	}
}

// TestScan_ShortKeys checks that the limit on the size of copied keys does not shorten a step if keys are short, and
// that all steps together return every key.
func TestScan_ShortKeys(t *testing.T) {
	t.Parallel()
	p := start(t, nil).dial()
	const n = 3000
	for i := range n {
		p.send(throttle(fmt.Sprint("key", i)))
	}
	for range n {
		p.read()
	}
	found := map[string]bool{}
	for cursor, more := "0", true; more; more = cursor != "0" {
		step := p.ask("SCAN", cursor, "COUNT", "1000").list
		cursor = step[0].text
		if keys := len(step[1].list); keys < 100 && cursor != "0" {
			t.Errorf("a step returned %d keys, want at least 100", keys)
		}
		for _, key := range step[1].list {
			found[key.text] = true
		}
	}
	if len(found) != n {
		t.Errorf("all steps together returned %d keys, want %d", len(found), n)
	}
}
