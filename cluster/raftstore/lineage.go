package raftstore

import (
	"fmt"
	"hash/crc32"
	"strings"
)

// maxLineage is the maximum number of starts in a Lineage, without the first one.
const maxLineage = 255

// Lineage lists the processes that were started with a data directory. Boot numbers alone
// cannot distinguish a directory from a copy: a copy that is started often enough has a
// higher number than the original.
//
// After each start, the node announces its boot number in an entry of the Raft log. The first start of a
// lineage is usually the newest start whose announcement the cluster has applied. All later starts follow,
// with consecutive boot numbers. If there are more than maxLineage later starts, the oldest of them are
// dropped. The zero value is the lineage of a directory for which no start has been recorded.
type Lineage struct {
	Boot    uint64 `json:"boot,omitempty"`    // boot number of the first start, which was announced if Process is set
	Process string `json:"process,omitempty"` // process of that start; empty if unknown
	Since   string `json:"since,omitempty"`   // the processes of later starts, separated by spaces
}

// Excludes reports whether a process other than the given one made the start with the given boot number.
// It returns true if the lineage has another process for this start, or if the start was dropped from
// the lineage. It returns false if the boot number is outside the lineage, or if the given process or the
// process in the lineage is unknown (empty). newest is the boot number of the directory.
func (l Lineage) Excludes(newest, boot uint64, process string) bool {
	since := strings.Fields(l.Since)
	switch {
	case l == Lineage{} || process == "" || boot < l.Boot || boot > newest:
		return false
	case boot == l.Boot:
		return l.Process != "" && l.Process != process
	case newest-boot >= uint64(len(since)):
		return true // dropped: the process is unknown, and assumed to be another one
	}
	return since[len(since)-1-int(newest-boot)] != process
}

// WithStart returns the lineage with one more start, made by process, with the boot number boot.
func (l Lineage) WithStart(boot uint64, process string) Lineage {
	if l == (Lineage{}) {
		l.Boot = boot - 1
	}
	since := append(strings.Fields(l.Since), process)
	l.Since = strings.Join(since[max(0, len(since)-maxLineage):], " ")
	return l
}

// Announced returns the lineage after the cluster has applied the announcement of the newest start. boot
// is the boot number of that start.
func (l Lineage) Announced(boot uint64) Lineage {
	since := strings.Fields(l.Since)
	if len(since) == 0 {
		return l
	}
	return Lineage{Boot: boot, Process: since[len(since)-1]}
}

// sum returns a checksum, or an empty string for the zero value.
func (l Lineage) sum() string {
	if l == (Lineage{}) {
		return ""
	}
	return fmt.Sprintf("%08x", crc32.Checksum(fmt.Appendf(nil, "%d %q %q", l.Boot, l.Process, l.Since), castagnoli))
}
