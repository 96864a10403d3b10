package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func flip(t testing.TB, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	b[at] ^= 0x10
	must(t, os.WriteFile(path, b, 0o600))
}

// twoGenerations returns a directory with two snapshots, and the states in them: older is the state
// in the previous snapshot, and newer is the state in the current snapshot.
func twoGenerations(t testing.TB) (dir string, older, newer *memory) {
	t.Helper()
	dir = t.TempDir()
	older, newer = newMemory(5), newMemory(9)
	s := loadedStore(t, Config{Dir: dir, Name: "dump.thr"}, older)
	must(t, s.Save())
	s.state = newer
	must(t, s.Save())
	must(t, s.Close())
	return dir, older, newer
}

func TestFallback(t *testing.T) {
	dir, older, _ := twoGenerations(t)
	path := filepath.Join(dir, "dump.thr")
	for _, at := range []int64{0, 20, 100} { // magic, header, records
		flip(t, path, at)

		strict := newStore(t, Config{Dir: dir})
		into := newMemory(0)
		if err := strict.Load(t.Context(), into); !errors.Is(err, ErrDamaged) || len(into.records) > 0 {
			t.Fatalf("without Fallback, Load returns %v; want ErrDamaged and no records", err)
		}
		must(t, strict.Close())

		var log lockedLog
		s := newStore(t, Config{Dir: dir, Fallback: true, Log: log.logger()})
		if info, found, err := s.Info(); !found || err != nil || info.Keys != 5 && at != 100 {
			t.Errorf("byte %d flipped: Info returns %+v, %t, %v; want no error, and 5 keys if the first or the last block is damaged", at, info, found, err)
		}
		into = newMemory(0)
		must(t, s.Load(t.Context(), into))
		sameContent(t, "the loaded state", into, older)
		if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "damaged at byte") {
			t.Errorf("the log has no warning about the damaged snapshot: %s", &log)
		}
		must(t, s.Close())
		flip(t, path, at)
	}
}

// TestFallback_KeepsTheGoodOne checks that, if Load has rejected the current snapshot, the next
// save does not replace the previous snapshot.
func TestFallback_KeepsTheGoodOne(t *testing.T) {
	dir, older, newer := twoGenerations(t)
	path := filepath.Join(dir, "dump.thr")
	flip(t, path, 100)
	s := newStore(t, Config{Dir: dir, Fallback: true})
	state := newMemory(0)
	must(t, s.Load(t.Context(), state))
	s.state = newer
	must(t, s.Save())
	sameContentOf(t, path+".previous", older)
	sameContentOf(t, path, newer)
	s.state = state
	must(t, s.Save())
	sameContentOf(t, path+".previous", newer)
}

// sameContentOf checks that a snapshot file contains want.
func sameContentOf(t testing.TB, path string, want *memory) {
	t.Helper()
	got, err := contentOf(path)
	if err != nil {
		t.Fatal(err)
	}
	sameContent(t, path, got, want)
}

func contentOf(path string) (*memory, error) {
	snap, err := OpenSnapshot(path)
	if err != nil {
		return nil, err
	}
	got := newMemory(0)
	for r := range snap.Records() {
		if err := got.Put(r); err != nil {
			return nil, err
		}
	}
	return got, errors.Join(snap.Err(), snap.Close())
}

func TestFallback_HasItsLimits(t *testing.T) {
	f := func(what string, prepare func(path string), want error, text string) {
		t.Helper()
		dir, _, _ := twoGenerations(t)
		path := filepath.Join(dir, "dump.thr")
		prepare(path)
		s := newStore(t, Config{Dir: dir, Fallback: true})
		into := newMemory(0)
		err := s.Load(t.Context(), into)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), text) || len(into.records) > 0 || !s.Loading() {
			t.Errorf("%s: Load returns %v, and %d records remain; want the error of the case, no records, and Loading true", what, err, len(into.records))
		}
		if _, _, err := s.Info(); !errors.Is(err, want) {
			t.Errorf("%s: Info returns %v; want the error that Load returned", what, err)
		}
	}
	f("both are damaged", func(path string) { flip(t, path, 0); flip(t, path+".previous", 0) },
		ErrDamaged, "the previous snapshot cannot be loaded either")
	f("there is no previous one", func(path string) { flip(t, path, 0); must(t, os.Remove(path+".previous")) },
		ErrDamaged, "the previous snapshot cannot be loaded either: open snapshot")
	f("a later version wrote it", func(path string) {
		future := forge(magic)
		must(t, os.WriteFile(path, *future.block(headerBlock, []byte{2, 0}), 0o600))
	}, ErrUnknown, "format 2")
}

func TestLoad_UnreadableFallsBack(t *testing.T) {
	dir, older, _ := twoGenerations(t)
	path := filepath.Join(dir, "dump.thr")
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o700)) // a directory can be opened, but not read as a file
	strict := newStore(t, Config{Dir: dir})
	if err := strict.Load(t.Context(), newMemory(0)); !errors.Is(err, ErrUnreadable) {
		t.Errorf("the snapshot is a directory, and Load returns %v; want ErrUnreadable", err)
	}
	must(t, strict.Close())
	into := newMemory(0)
	loadedStore(t, Config{Dir: dir, Fallback: true}, into)
	sameContent(t, "the loaded state", into, older)
}

// TestLoad_Missing removes the current snapshot but not the previous one. Load must fail instead
// of starting with an empty state.
func TestLoad_Missing(t *testing.T) {
	dir, older, newer := twoGenerations(t)
	path := filepath.Join(dir, "dump.thr")
	must(t, os.Remove(path))

	strict := newStore(t, Config{Dir: dir})
	if _, _, err := strict.Info(); !errors.Is(err, ErrMissing) {
		t.Errorf("without a current snapshot, Info returns %v; want ErrMissing", err)
	}
	into := newMemory(0)
	err := strict.Load(t.Context(), into)
	if !errors.Is(err, ErrMissing) || !strict.Loading() {
		t.Errorf("without a current snapshot, Load returns %v; want ErrMissing, and Loading true", err)
	}
	for _, want := range []string{path + " is missing", path + ".previous exists", "--snapshot-fallback yes", "to start empty, delete it"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("the error %v does not contain %q", err, want)
		}
	}
	must(t, strict.Close())

	var log lockedLog
	s := newStore(t, Config{Dir: dir, Fallback: true, Log: log.logger()})
	if info, found, err := s.Info(); !found || err != nil || info.Keys != 5 {
		t.Errorf("with Fallback, Info returns %+v, %t, %v; want the previous snapshot, with 5 keys", info, found, err)
	}
	must(t, s.Load(t.Context(), into))
	sameContent(t, "the loaded state", into, older)
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "loading the previous snapshot") {
		t.Errorf("the log has no warning about the use of the previous snapshot: %s", &log)
	}
	s.state = newer
	must(t, s.Save())
	sameContentOf(t, path+".previous", older)
	sameContentOf(t, path, newer)
}

// TestLoad_MissingBoth checks that a store without any snapshot starts empty, with and without
// Fallback.
func TestLoad_MissingBoth(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		into := newMemory(0)
		s := newStore(t, Config{Dir: t.TempDir(), Fallback: fallback})
		if _, found, err := s.Info(); found || err != nil {
			t.Errorf("Info of an empty directory returns %t, %v; want false, no error", found, err)
		}
		must(t, s.Load(t.Context(), into))
		must(t, s.Save())
	}
}
