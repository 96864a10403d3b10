package peerlink

import (
	"fmt"

	"github.com/throttledhq/throttled/topology"
)

// SetRecovery says to which recovery of the cluster this node belongs. Nodes of another one get no stream, and
// give none. Before the first call the node has none yet: it takes and opens Control streams whatever the peer's
// recovery is, and others as a node of a cluster that was never recovered.
func (l *Link) SetRecovery(r topology.Recovery) { l.recovery.Store(&r) }

// SetCurrent says whether the data of a node is newer, by its boot, than any that this node knows of; nil, as before
// the first call, stands for yes. One whose data is not gets no stream but for Control, on which it
// can learn why. The function may be called by several goroutines at once.
func (l *Link) SetCurrent(current func(node string, boot uint64) bool) {
	if current == nil {
		l.current.Store(nil)
		return
	}
	l.current.Store(&current)
}

// standing returns what this node says of itself on a stream, in a frame of a version.
func (l *Link) standing(p Purpose, version byte) standing {
	s := standing{boot: l.cfg.Boot, version: version}
	switch r := l.recovery.Load(); {
	case r != nil:
		s.recovery = *r
	case p == Control:
		s.recovery = newcomer
	}
	return s
}

// oldPeers reports whether nodes of the version before may have streams: they know no recovery.
func (l *Link) oldPeers() bool { return l.standing(Raft, version).recovery == "" }

// compare returns why a stream with a peer must not be.
func (l *Link) compare(node string, p Purpose, theirs standing) error {
	ours := l.standing(p, version)
	switch {
	case theirs.version == oldVersion && ours.recovery != "" && ours.recovery != newcomer:
		return fmt.Errorf("%w: node %s knows no recovery, and this node has %s: upgrade it", ErrVersion, node, ours.recovery)
	case p == Control && (ours.recovery == newcomer || theirs.recovery == newcomer):
		return nil
	case ours.recovery != theirs.recovery:
		return &RecoveryError{Node: node, Ours: ours.recovery, Theirs: theirs.recovery}
	case p != Control && !l.isCurrent(node, theirs.boot):
		return fmt.Errorf("%w: node %s, boot %d", ErrOutdated, node, theirs.boot)
	}
	return nil
}

func (l *Link) isCurrent(node string, boot uint64) bool {
	current := l.current.Load()
	return current == nil || boot == 0 || (*current)(node, boot)
}
