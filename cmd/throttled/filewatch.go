package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/throttledhq/throttled/internal/fsutil"
)

// pollEvery is the interval at which the file is compared with its last state, for changes that the operating system
// does not report, for example on network file systems, and after a directory in the path was replaced by a rename.
const pollEvery = 10 * time.Second

// maxLinks is the maximum number of symbolic links in a path, as in Linux.
const maxLinks = 40

// fileWatch reports changes of a file. Editors replace a file by a rename, and Kubernetes replaces a symbolic link in the
// path of the file. A fileWatch therefore watches directories: that of the file, and that of each link in its path.
type fileWatch struct {
	path    string
	poll    <-chan time.Time  // requests that the file is compared with its last state
	watcher *fsnotify.Watcher // nil if the operating system cannot watch files
	events  chan struct{}
	done    chan struct{}
	running sync.WaitGroup
}

// newFileWatch starts to watch a file, which need not exist. It compares the file with its last state for each value of poll.
func newFileWatch(path string, poll <-chan time.Time, log *slog.Logger) *fileWatch {
	w := &fileWatch{path: path, poll: poll, events: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	if w.watcher, err = fsnotify.NewWatcher(); err != nil {
		log.Warn("changes of the rules file are detected late, because the file cannot be watched", "file", path, "error", err)
	}
	names := w.follow()
	// #nosec G703 -- the operator chooses the path
	last, _ := os.Stat(path) // nil if there is no file
	w.running.Go(func() { w.run(names, last) })
	return w
}

// changed returns a channel that receives a value after a change of the file, or of a link in its path.
func (w *fileWatch) changed() <-chan struct{} { return w.events }

// close stops the watch.
func (w *fileWatch) close() {
	close(w.done)
	w.running.Wait()
	if w.watcher != nil {
		_ = w.watcher.Close() // nothing is read any more
	}
}

// run reports changes until the watch is closed. names are the paths of the links and of the file, and last is the
// state with which the first poll compares the file.
func (w *fileWatch) run(names []string, last os.FileInfo) {
	var events <-chan fsnotify.Event
	var failures <-chan error
	if w.watcher != nil {
		events, failures = w.watcher.Events, w.watcher.Errors
	}
	for {
		select {
		case <-w.done:
			return
		case e := <-events:
			if !slices.Contains(names, filepath.Clean(e.Name)) {
				continue
			}
		case <-failures: // events may have been lost
		case <-w.poll:
			now, _ := os.Stat(w.path)
			if fsutil.SameState(last, now) {
				continue
			}
			last = now
			w.forget() // a directory may have been replaced by another one of the same name
		}
		names = w.follow()
		select {
		case w.events <- struct{}{}:
		default:
		}
	}
}

// forget removes all watches. A watch belongs to a directory, not to its path.
func (w *fileWatch) forget() {
	if w.watcher == nil {
		return
	}
	for _, dir := range w.watcher.WatchList() {
		_ = w.watcher.Remove(dir) // fails if the directory was deleted
	}
}

// follow watches the directories of the file and of the links in its path, and returns their paths.
func (w *fileWatch) follow() []string {
	names := linksOf(w.path)
	if w.watcher == nil {
		return names
	}
	watched := w.watcher.WatchList()
	for _, name := range names {
		if dir := filepath.Dir(name); !slices.Contains(watched, dir) {
			_ = w.watcher.Add(dir) // fails if the directory does not exist; changes are then detected by polling
		}
	}
	for _, dir := range watched {
		if !slices.ContainsFunc(names, func(name string) bool { return filepath.Dir(name) == dir }) {
			_ = w.watcher.Remove(dir) // fails if the directory was deleted
		}
	}
	return names
}

// linksOf returns the absolute paths of the symbolic links in a path, and of the file to which the path leads.
func linksOf(path string) (names []string) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	const separator = string(filepath.Separator)
	at, rest := separator, strings.Split(path, separator)
	for links := 0; len(rest) > 0 && links <= maxLinks; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(next)
		switch {
		case err != nil && len(rest) == 0:
			return append(names, next)
		case err != nil: // not a link
			at = next
			continue
		case filepath.IsAbs(target):
			at = separator
		}
		links++
		names = append(names, next)
		rest = append(strings.Split(target, separator), rest...)
	}
	return names
}
