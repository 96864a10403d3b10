package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/persistence"
)

const checkText = `Reads a whole snapshot, or the snapshots and the whole log in the data-dir of a node, and prints a
summary, or the first error and its position. Nothing is changed. The node must not be running.`

const dumpText = `Prints each key as a line of JSON, after the whole FILE or DIR was verified. Nothing is changed.

FILE is a snapshot. DIR is the data-dir of a node, which must not be running. Its keys have the
state after the newest entry of its log, which may not be committed yet. The command holds all of
them in memory.

The field used has the units in use at the end of the save or, for DIR, at the newest entry with
changes. For a token bucket with refilled_ns and without refill, it has the units in use after that
refill. The field used_percent has the used share of the limit, with an error of at most an eighth
of the share. For windows and token buckets, it is the share after the last charge. Limits are
arguments of requests, and are not stored.`

// keys are the keys of a snapshot or a data directory, and the limiter time at which they are shown.
type keys struct {
	now     uint64
	records iter.Seq[limiter.Record]
}

// bindCheck binds the command "throttled check". It reads a whole snapshot or data directory and prints a summary, or the
// first error and its position.
func bindCheck(*flag.FlagSet) action {
	return func(ctx context.Context, paths []string, stdout, _ io.Writer) error {
		if isDir(paths[0]) {
			return checkDir(ctx, paths[0], stdout)
		}
		return inspect(ctx, paths[0], func(s *persistence.Snapshot) error {
			c := count(keys{s.Info().Ended, s.Records()})
			if s.Err() != nil {
				return s.Err()
			}
			return c.describe(stdout, paths[0], s.Info())
		})
	}
}

// bindDump binds the command "throttled dump". It prints a snapshot or a data directory as JSON, one record per line. It
// verifies the whole file or directory before it prints anything.
func bindDump(*flag.FlagSet) action {
	return func(ctx context.Context, paths []string, stdout, _ io.Writer) error {
		dump := dumpFile
		if isDir(paths[0]) {
			dump = dumpDir
		}
		err := dump(ctx, paths[0], stdout)
		if errors.Is(err, syscall.EPIPE) {
			return nil // the reader has closed the pipe
		}
		return err
	}
}

// dumpFile prints the keys of a snapshot.
func dumpFile(ctx context.Context, file string, stdout io.Writer) error {
	return inspect(ctx, file, func(s *persistence.Snapshot) error {
		if err := s.Verify(); err != nil {
			return err
		}
		if err := dumpRecords(ctx, stdout, keys{s.Info().Ended, s.Records()}); err != nil {
			return err
		}
		return s.Err()
	})
}

// dumpDir prints the keys of a data directory.
func dumpDir(ctx context.Context, dir string, stdout io.Writer) error {
	_, k, err := replayDir(ctx, dir)
	if err != nil {
		return err
	}
	return dumpRecords(ctx, stdout, k)
}

func isDir(path string) bool {
	info, err := os.Stat(path) // #nosec G703 -- the operator chooses the path
	return err == nil && info.IsDir()
}

// inspect opens a snapshot, and passes it to the function use. If ctx is canceled, the file is closed, so that reads fail.
func inspect(ctx context.Context, file string, use func(*persistence.Snapshot) error) error {
	s, err := persistence.OpenSnapshot(file)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	err = use(s)
	if !stop() {
		err = fmt.Errorf("%s: %w", file, context.Cause(ctx))
	}
	_ = s.Close() // opened for reading only
	return err
}

// contents holds the counts that "throttled check" prints.
type contents struct {
	kinds    [256]int64 // records by kind
	expired  int64      // records that have expired
	keyBytes int64
	longest  int
}

// count returns the counts of the given keys.
func count(k keys) (c contents) {
	for r := range k.records {
		c.add(&r, k.now)
	}
	return c
}

func (c *contents) add(r *limiter.Record, now uint64) {
	c.kinds[r.Kind]++
	if r.Expires <= now {
		c.expired++
	}
	c.keyBytes += int64(len(r.Key))
	c.longest = max(c.longest, len(r.Key))
}

// newRows returns a function that writes rows of a table, and the writer that must be flushed after the last row.
func newRows(w io.Writer) (tw *tabwriter.Writer, row func(name, form string, args ...any)) {
	tw = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	return tw, func(name, form string, args ...any) {
		_, _ = fmt.Fprintf(tw, name+":\t"+form+"\n", args...) // Flush returns the error
	}
}

// describe prints the summary of a snapshot.
func (c *contents) describe(w io.Writer, file string, info persistence.Info) error {
	tw, row := newRows(w)
	row("file", "%s", file)
	row("size", "%d bytes in %d blocks of records", info.Size, info.Blocks)
	row("format", "%d", info.Format)
	row("written by", "throttled %s", info.Program)
	row("created", "%s", info.Created.UTC().Format(time.RFC3339Nano))
	row("limiter time", "%d ns at the start of the save, %d ns at its end", info.Begun, info.Ended)
	row("keys", "%d, %d live and %d expired at the end of the save", info.Keys, info.Keys-c.expired, c.expired)
	c.rows(row)
	row("result", "ok")
	return tw.Flush()
}

// rows writes the counts of keys by kind, and of their bytes.
func (c *contents) rows(row func(name, form string, args ...any)) {
	for kind, n := range c.kinds {
		if n > 0 {
			k := limiter.Kind(kind)
			of := ""
			if k.OfRules() {
				of = " of rules" // the name can be that of another kind
			}
			if k.Leased() {
				of += " with leases"
			}
			row("  "+k.String()+" ("+k.Encoding()+")"+of, "%d", n)
		}
	}
	row("key bytes", "%d in total, %d in the longest key", c.keyBytes, c.longest)
}
