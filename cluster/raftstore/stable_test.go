package raftstore

import (
	"errors"
	"testing"
)

func TestStable(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir})
	values := map[string]string{"LastVoteCand": "node", "empty": "", "bytes": "\x00\xff"}
	for key, value := range values {
		must(t, s.Stable().Set([]byte(key), []byte("before")))
		must(t, s.Stable().Set([]byte(key), []byte(value)))
	}
	must(t, s.Stable().SetUint64([]byte("CurrentTerm"), 1<<63+5))
	must(t, s.Close())
	s = openStore(t, Config{Dir: dir})
	for key, want := range values {
		if got, err := s.Stable().Get([]byte(key)); err != nil || string(got) != want {
			t.Errorf("the value of %s is %q, error %v; want %q", key, got, err, want)
		}
	}
	if got, err := s.Stable().GetUint64([]byte("CurrentTerm")); err != nil || got != 1<<63+5 {
		t.Errorf("the term is %d, error %v; want 1<<63+5", got, err)
	}
	if _, err := s.Stable().GetUint64([]byte("LastVoteCand")); err == nil {
		t.Error("GetUint64 accepts a value of 4 bytes; want an error")
	}
}

// TestStable_LeavesTheValueAlone checks that Set does not write to the spare capacity of
// the value.
func TestStable_LeavesTheValueAlone(t *testing.T) {
	s := guardedStore(newFaulty(), func(err error) { t.Error(err) })
	value := []byte("vote----")
	must(t, s.Stable().Set([]byte("LastVoteCand"), value[:4]))
	if string(value) != "vote----" {
		t.Errorf("after Set, the bytes of the caller are %q; want \"vote----\"", value)
	}
}

// TestStable_Damaged flips each bit of a stored term, truncates the stored term, and stores it under
// a different key. Each of these changes must be detected when the term is read.
func TestStable_Damaged(t *testing.T) {
	key := []byte("CurrentTerm")
	check := func(what string, key []byte, change func(stored []byte) []byte) {
		t.Helper()
		f := newFaulty()
		var reported error
		s := guardedStore(f, func(err error) { reported = err })
		must(t, s.Stable().SetUint64([]byte("CurrentTerm"), 77))
		stored, err := f.InmemStore.Get([]byte("CurrentTerm"))
		must(t, err)
		must(t, f.InmemStore.Set(key, change(stored)))
		if term, err := s.Stable().GetUint64(key); !errors.Is(err, ErrDamaged) || !errors.Is(reported, ErrDamaged) {
			t.Errorf("%s: GetUint64 returns %d, %v, and Fatal is called with %v; want ErrDamaged in both", what, term, err, reported)
		}
	}
	for bit := range 8 * (8 + sumSize) {
		check("a bit", key, func(b []byte) []byte { b[bit/8] ^= 1 << (bit % 8); return b })
	}
	check("cut", key, func(b []byte) []byte { return b[:3] })
	check("nothing", key, func(b []byte) []byte { return b[:0] })
	check("of another key", []byte("LastVoteTerm"), func(b []byte) []byte { return b })
}
