package cluster

import "github.com/hashicorp/raft"

// compactedLog is a log store in which compaction deletes one entry fewer than Raft requests.
//
// This works around hashicorp/raft issue 697. A follower may have compacted its log up to the newest entry in its
// snapshot, so that only uncommitted entries remain. All of them can conflict with the log of a new leader. To accept
// the entries of the leader, Raft on the follower must find the entry before the first conflict. Raft searches the log
// only, not the snapshot. If the entry is missing, the follower rejects all entries, and the leader sends the same
// snapshot repeatedly. compactedLog therefore keeps the newest of the entries that Raft deletes. This entry is in the
// snapshot and therefore committed. Committed entries never conflict, so the entry that Raft needs is the kept entry or
// a later one.
type compactedLog struct{ raft.LogStore }

// DeleteRange deletes the entries from lo to hi. If later entries remain, it keeps entry hi.
func (l compactedLog) DeleteRange(lo, hi uint64) error {
	last, err := l.LastIndex()
	if err != nil {
		return err
	}
	if hi < last {
		hi--
	}
	if hi < lo {
		return nil
	}
	return l.LogStore.DeleteRange(lo, hi)
}
