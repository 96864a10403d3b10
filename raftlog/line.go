package raftlog

import (
	"fmt"
	"hash/crc32"
	"strings"
)

// maxLine is how many of the newest starts a Line holds besides the announced one.
const maxLine = 255

// Line is the line of descent of a data directory: the processes that were started with it. Boot numbers alone do not
// tell a directory from a copy of it, as a copy that is started often enough has the higher number.
//
// It begins with a start of which the cluster knows, and holds all later ones, by consecutive boot numbers. If there are
// more than maxLine of those, the oldest of them are dropped. The zero value is that of a directory that no process has
// been started with since lines are kept.
type Line struct {
	Boot    uint64 `json:"boot,omitempty"`    // boot number of the announced start, or the last one before lines were kept
	Process string `json:"process,omitempty"` // of that start; empty if it is unknown
	Since   string `json:"since,omitempty"`   // the processes of later starts, separated by spaces
}

// Denies reports whether process was not started with this directory as number boot, although the line covers that
// number. newest is the boot number of the directory.
func (l Line) Denies(newest, boot uint64, process string) bool {
	since := strings.Fields(l.Since)
	switch {
	case l == Line{} || process == "" || boot < l.Boot || boot > newest:
		return false
	case boot == l.Boot:
		return l.Process != "" && l.Process != process
	case newest-boot >= uint64(len(since)):
		return true // dropped: it is safer to take it for a start of another copy
	}
	return since[len(since)-1-int(newest-boot)] != process
}

// Raised returns the line after a start with the next number, boot.
func (l Line) Raised(boot uint64, process string) Line {
	if l == (Line{}) {
		l.Boot = boot - 1
	}
	since := append(strings.Fields(l.Since), process)
	l.Since = strings.Join(since[max(0, len(since)-maxLine):], " ")
	return l
}

// Announced returns the line after the cluster has applied the announcement of the newest start, of
// number boot.
func (l Line) Announced(boot uint64) Line {
	since := strings.Fields(l.Since)
	if len(since) == 0 {
		return l
	}
	return Line{Boot: boot, Process: since[len(since)-1]}
}

// sum is a checksum; it is empty for the zero value.
func (l Line) sum() string {
	if l == (Line{}) {
		return ""
	}
	return fmt.Sprintf("%08x", crc32.Checksum(fmt.Appendf(nil, "%d %q %q", l.Boot, l.Process, l.Since), castagnoli))
}
