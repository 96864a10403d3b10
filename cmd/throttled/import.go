package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/internal/rediscell"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/persistence"
)

const importText = `Reads the limiter keys of a live server, which is not modified, and writes a snapshot that
"throttled --dir DIR" loads at startup.`

// importLineEvery is the interval between progress lines if the output is not a terminal.
const importLineEvery = 5 * time.Second

// importCommand holds the flags of "throttled import".
type importCommand struct {
	source  rediscell.Config
	dir     string
	name    string // name of the snapshot in dir
	dryRun  bool
	replace bool
}

// bindImport binds the command "throttled import". If the context is canceled or an error occurs, no snapshot is written.
func bindImport(f *flag.FlagSet) action {
	c := &importCommand{}
	f.Func("from", "`URL` to read: redis://[user:password@]host[:port][/db], rediss:// for TLS; repeat it for each master of a cluster", func(url string) error {
		c.source.From = append(c.source.From, url)
		return nil
	})
	f.StringVar(&c.source.Match, "match", "", "`PATTERN` of the keys to import, as in SCAN; default: all keys")
	f.Int64Var(&c.source.Count, "count", 1000, "`N` keys to request with each SCAN, 1 to 10000")
	f.DurationVar(&c.source.Tolerance, "tolerance", time.Second, "maximum `DURATION` between the time in a limiter key and its expiry")
	f.StringVar(&c.dir, "dir", ".", "`DIR` of the snapshot")
	f.StringVar(&c.name, "dbfilename", "dump.thr", "`NAME` of the snapshot in DIR")
	f.BoolVar(&c.dryRun, "dry-run", false, "read and report, but write nothing")
	f.BoolVar(&c.replace, "replace", false, "replace an existing snapshot, which is kept as NAME.previous")
	return func(ctx context.Context, operands []string, stdout, stderr io.Writer) error {
		if err := c.check(len(operands)); err != nil {
			return &usageError{err}
		}
		err := c.run(ctx, stdout, stderr)
		if errors.Is(err, rediscell.ErrURL) {
			return &usageError{err}
		}
		return err
	}
}

// check validates the flags. It returns an error if operands, the number of arguments that are not flags, is not 0.
func (c *importCommand) check(operands int) error {
	switch {
	case operands > 0: // not printed: it may be a URL with a password
		return errors.New("unexpected argument: every argument must belong to an option such as --from")
	case len(c.source.From) == 0:
		return errors.New("--from is missing: specify the URL of a server")
	case c.source.Count <= 0:
		return errors.New("--count must be at least 1")
	case c.source.Tolerance <= 0:
		return errors.New("--tolerance must be greater than 0")
	}
	return nil
}

// run imports the keys and prints a report.
func (c *importCommand) run(ctx context.Context, stdout, stderr io.Writer) error {
	var remove func()
	c.source.Progress, remove = importProgress(stderr)
	report, err := c.carryOut(ctx)
	remove()
	if err != nil {
		return err
	}
	result := "snapshot written: " + filepath.Join(c.dir, c.name)
	if c.dryRun {
		result = "dry run: no snapshot was written"
	}
	_, err = fmt.Fprintf(stdout, "%s%s\n", report, result)
	return err
}

func (c *importCommand) carryOut(ctx context.Context) (rediscell.Report, error) {
	if c.dryRun {
		return rediscell.Run(ctx, c.source, func(limiter.Record) error { return nil })
	}
	return c.snapshot(ctx)
}

// importProgress returns functions that show and remove the progress. If stderr is a character device, the progress is
// shown as a bar, otherwise as lines.
func importProgress(stderr io.Writer) (progress func(done, total int64), remove func()) {
	if file, ok := stderr.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return rediscell.Bar(stderr)
		}
	}
	return rediscell.Lines(stderr, importLineEvery, time.Now), func() {}
}

// importState is the table as a persistence.State. It ignores the records of the snapshot that the import
// replaces.
type importState struct{ *buckets.Table }

// Put ignores a record. Only the Store calls it, when it loads the old snapshot.
func (importState) Put(limiter.Record) error { return nil }

// snapshot imports the keys into a table and saves the table. It locks the directory, so that no server can use the
// directory during the import.
func (c *importCommand) snapshot(ctx context.Context) (report rediscell.Report, err error) {
	store, err := persistence.Open(persistence.Config{Dir: c.dir, Name: c.name, Version: version})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	table := buckets.New(buckets.Config{})
	if err := c.prepare(ctx, store, importState{table}); err != nil {
		return report, err
	}
	c.source.Now = table.Now
	report, err = rediscell.Run(ctx, c.source, table.Put)
	switch {
	case err != nil:
		return report, fmt.Errorf("%w (no snapshot was written)", err)
	case report.Imported == 0: // an empty snapshot is probably a mistake, especially with --replace
		return report, fmt.Errorf("the source has no limiter keys, no snapshot was written:\n%s", strings.TrimSpace(report.String()))
	}
	return report, store.Save()
}

// prepare loads the store, since a store cannot save before it is loaded. It returns an error if a snapshot exists,
// unless --replace is given.
func (c *importCommand) prepare(ctx context.Context, store *persistence.Store, state persistence.State) error {
	_, found, err := store.Info()
	if err == nil && found && !c.replace {
		err = fmt.Errorf("%s already exists: specify --replace to replace it", filepath.Join(c.dir, c.name))
	}
	if err != nil {
		return err
	}
	if err := store.Writable(); err != nil {
		return err
	}
	return store.Load(ctx, state)
}
