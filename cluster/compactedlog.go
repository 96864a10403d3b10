package cluster

import "github.com/hashicorp/raft"

// compactedLog is a log store in which compaction keeps one more entry than Raft requests.
//
// A follower that has compacted its log up to the newest entry of its snapshot, and holds uncommitted entries behind
// that, can conflict with a new leader from the next entry on. Raft checks the term of the entry in front of a conflict
// against the log, and not against the snapshot: without that entry the follower rejects all entries, and the leader
// sends it the same snapshot repeatedly (hashicorp/raft issue 697). Committed entries never conflict, so the entry that
// Raft needs is the one kept or a later one.
type compactedLog struct{ raft.LogStore }

// DeleteRange deletes the entries from lo to hi, except entry hi if later ones remain.
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
