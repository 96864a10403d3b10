package cluster

import "github.com/hashicorp/raft"

// compactedLog is a log store in which compaction keeps one more entry than Raft requests.
//
// A follower may have compacted its log up to the newest entry of its snapshot, and hold uncommitted entries after that
// entry. All of these can conflict with the log of a new leader. Raft compares the term of the entry before a conflict
// with the log only, not with the snapshot. Without that entry the follower rejects all entries, and the leader sends it
// the same snapshot repeatedly (hashicorp/raft issue 697). Committed entries never conflict, so the entry that Raft needs
// is the kept entry or a later one.
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
