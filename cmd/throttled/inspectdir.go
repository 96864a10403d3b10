package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/throttledhq/throttled/cluster/raftstore"
)

// Errors of directories that are not the data-dir of a node, or not any more.
var (
	errNoData     = errors.New("it is not the data-dir of a node: for a snapshot, specify the file in the directory, such as dump.thr")
	errNoIdentity = fmt.Errorf("the directory contains a log, but identity.json is missing: %w", raftstore.ErrDamaged)
)

// replayDir reads the data directory of a node that is not running, and changes nothing in it. It returns the keys after
// the newest entry of the log, at the time of this entry.
func replayDir(ctx context.Context, dir string) (s raftstore.Summary, k keys, err error) {
	s, err = raftstore.Inspect(dir)
	switch {
	case err == nil && s.Identity == nil && s.LastIndex > 0:
		return s, k, fmt.Errorf("inspect %s: %w", dir, errNoIdentity)
	case errors.Is(err, raftstore.ErrNoNode), err == nil && s.Identity == nil:
		return s, k, fmt.Errorf("inspect %s: %w", dir, errNoData)
	case err != nil:
		return s, k, err
	}
	failed := make(chan error, 1)
	fsm, table, clock := replayer(s.Identity, func(err error) { failed <- err })
	if err := raftstore.Replay(ctx, dir, fsm); err != nil {
		return s, k, err
	}
	select {
	case err := <-failed:
		return s, k, fmt.Errorf("read %s: %w", dir, err)
	default:
	}
	return s, keys{clock.Now(), table.Records()}, nil
}

// checkDir prints the summary of a data directory.
func checkDir(ctx context.Context, dir string, stdout io.Writer) error {
	s, k, err := replayDir(ctx, dir)
	if err != nil {
		return err
	}
	c := count(k)
	live := int64(0)
	for _, n := range c.kinds {
		live += n
	}
	tw, row := newRows(stdout)
	row("directory", "%s", dir)
	row("cluster", "%s", s.Identity.Cluster)
	row("node", "%s, started %d times", s.Identity.Node, s.Identity.Boot)
	row("newest entry", "%d of term %d", s.LastIndex, s.LastTerm)
	for _, snapshot := range s.Snapshots {
		row("snapshot", "%s up to entry %d, %d bytes, %s", snapshot.ID, snapshot.Index, snapshot.Size, usability(snapshot.Err))
	}
	row("limiter time", "%d ns at the newest entry with changes", k.now)
	row("keys", "%d live", live)
	c.rows(row)
	row("result", "ok")
	return tw.Flush()
}

// usability describes the error of a snapshot.
func usability(err error) string {
	if err == nil {
		return "usable"
	}
	return "unusable: " + err.Error()
}
