package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/throttledhq/throttled/buckets"
	"github.com/throttledhq/throttled/options"
	"github.com/throttledhq/throttled/persistence"
)

// openStore opens the snapshot store in the working directory. An error, for example because another process uses the
// directory, is ignored if there is no snapshot and no save point is set. The program then runs without a store.
func (p *program) openStore(o *options.Options) error {
	store, err := persistence.Open(persistence.Config{
		Dir:      ".",
		Name:     o.DBFilename,
		Fallback: o.SnapshotFallback,
		Version:  version,
		Log:      p.log,
	})
	if err != nil && len(o.Save) == 0 && !exists(o.DBFilename) && !exists(o.DBFilename+persistence.PreviousSuffix) {
		p.storeErr = err
		return nil
	}
	if err != nil {
		return fmt.Errorf("snapshots in %s: %w", o.Dir, err)
	}
	p.store = store
	store.SetSavePoints(savePoints(o))
	if len(o.Save) > 0 {
		return store.Writable()
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path) // #nosec G703 -- the operator chooses the path
	return !errors.Is(err, fs.ErrNotExist)
}

func savePoints(o *options.Options) []persistence.SavePoint {
	points := make([]persistence.SavePoint, len(o.Save))
	for i, point := range o.Save {
		points[i] = persistence.SavePoint(point)
	}
	return points
}

// openTable creates the table. The clock of the table begins at the wall time, less the limiterDelay of the snapshot, or at
// the end time of the snapshot if that is later. State must not be evaluated at a time before the decisions that produced
// it, even if the wall clock was set back. If there is no snapshot, openTable also completes the load, so that clients do
// not have to wait for it.
func (p *program) openTable(o *options.Options) error {
	base, found := time.Now(), false
	var info persistence.Info
	if p.store != nil {
		var err error
		if info, found, err = p.store.Info(); err != nil {
			return err
		}
		if found {
			base = base.Add(-limiterDelay(&info))
		}
		if ended := time.Unix(0, int64(info.Ended)); found && ended.After(base) {
			p.log.Warn("the wall clock is behind the snapshot: limiter time starts at the time of the snapshot", "behind", ended.Sub(base))
			base = ended
		}
	}
	p.maxMemory = o.MaxMemory
	p.table = buckets.New(buckets.Config{Clock: buckets.NewClock(base), MaxMemory: o.MaxMemory, Eviction: eviction(o)})
	if found {
		p.table.Reserve(info.Keys, info.Size) // a record has the same size in the file and in the table
		return nil
	}
	return p.load(context.Background())
}

// limiterDelay returns the time by which limiter time was behind the wall clock when a snapshot was written, or 0 if it was
// ahead. The backup of a cluster has the log time of the cluster, which falls behind while the cluster has no majority. If
// limiter time advanced to the wall clock, units would be restored for that time.
func limiterDelay(i *persistence.Info) time.Duration {
	return max(0, i.Created.Sub(time.Unix(0, int64(i.Begun))))
}

// loading reports whether the snapshot has not been loaded yet.
func (p *program) loading() bool { return p.store != nil && p.store.Loading() }

// load fills the table from the snapshot. The memory limit applies only after the load: the same keys may need slightly
// more memory than in the previous process, and this must not prevent the program from starting.
func (p *program) load(ctx context.Context) error {
	if !p.loading() {
		return nil
	}
	p.table.SetMaxMemory(0)
	if err := p.store.Load(ctx, p.table); err != nil {
		return err
	}
	p.limitMu.Lock()
	defer p.limitMu.Unlock()
	p.table.SetMaxMemory(p.maxMemory)
	if used := p.table.Usage().Bytes; p.maxMemory > 0 && used > p.maxMemory {
		p.log.Warn("the keys of the snapshot need more memory than maxmemory", "used", used, "maxmemory", p.maxMemory)
	}
	return nil
}

// limitMemory changes the memory limit of the table, immediately or at the end of the load.
func (p *program) limitMemory(bytes int64) {
	p.limitMu.Lock()
	defer p.limitMu.Unlock()
	p.maxMemory = bytes
	if !p.loading() {
		p.table.SetMaxMemory(bytes)
	}
}

// saveLast saves if anything has changed since the last save. It is called after the last
// decision.
func (p *program) saveLast() error {
	if p.store == nil || p.loading() || p.store.Status().Changes == 0 {
		return nil
	}
	if err := p.store.Save(); err != nil {
		return fmt.Errorf("save at shutdown: %w", err)
	}
	return nil
}
