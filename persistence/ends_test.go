package persistence

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOpenSnapshot_ImpossibleTrailer checks that trailers with a valid checksum and impossible
// values are rejected. Otherwise a caller could allocate memory for more keys than the file has
// bytes, or set a clock beyond its range.
func TestOpenSnapshot_ImpossibleTrailer(t *testing.T) {
	const begun = 7
	f := func(info Info) error {
		file := forge(magic)
		file.block(headerBlock, appendHeader(nil, &Info{Format: format, Begun: begun}))
		path := filepath.Join(t.TempDir(), "dump.thr")
		if err := os.WriteFile(path, *file.block(trailerBlock, appendTrailer(nil, &info)), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenSnapshot(path)
		if err == nil {
			err = s.Close()
		}
		return err
	}
	if err := f(Info{Ended: math.MaxInt64}); err != nil {
		t.Fatalf("a valid trailer: OpenSnapshot returns %v; want no error", err)
	}
	for name, info := range map[string]Info{
		"more keys than bytes":    {Keys: 1 << 40, Blocks: 1, Ended: begun},
		"maximum number of keys":  {Keys: 1 << 62, Blocks: 1, Ended: begun},
		"negative number of keys": {Keys: -1, Ended: begun},
		"more blocks than keys":   {Blocks: 1, Ended: begun},
		"an end before the start": {Ended: begun - 1},
		"an end out of range":     {Ended: 1 << 63},
	} {
		if err := f(info); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "impossible values") {
			t.Errorf("%s: OpenSnapshot returns %v; want ErrDamaged, and impossible values as the reason", name, err)
		}
	}
}

// TestOpenSnapshot_Endless checks that OpenSnapshot neither blocks on a named pipe nor reads a
// device.
func TestOpenSnapshot_Endless(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "dump.thr")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/zero"} {
		if _, err := OpenSnapshot(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: OpenSnapshot returns %v; want the error for a file that is not regular", path, err)
		}
	}
}
