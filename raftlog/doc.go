// Package raftlog is what one node keeps on its disk for hashicorp/raft, and the guards
// around that.
//
// A [Store] has one directory for itself: the log, the term and the vote, the
// snapshots, and the [Identity] of the node. [Inspect] and [Recover] are for the operator,
// while the node does not run. [InstallGuard] and [TransferGuard] find loops that the
// library does not get out of by itself. [Logger] writes the library's lines to a
// slog.Logger.
//
// The order at a start is Open, Identity, Claim, Check, raft.NewRaft.
//
// # Guarantees
//
// After the first error of a write, of a read other than that there is no such entry, or
// of making a write durable, neither the log nor the vote is touched again: the error is
// given to Config.Fatal, which ends the process, and whatever is asked for later fails. A
// disk that has lost a write tells it once; to try again can succeed and mean nothing. A
// write, or another change of a file, that takes longer than Config.Limit is such an error
// too, one of a snapshot as well: the library would wait for it for ever, and go on answering
// heartbeats. What rightly takes long is watched step by step.
//
// What is on the disk is what was written, or is refused. The pages of the databases are
// checked when they are opened, each entry of the log and each value of the stable store has
// a checksum, and so have the identity and the snapshots. A database that is empty or gone,
// where there is an identity, is refused: a node must not forget what it voted for.
//
// Deleting many entries lets those through that are to be stored meanwhile.
//
// # Files
//
//	DIR/current/identity.json   cluster, node, incarnation, when it was made, checksum
//	DIR/current/front-N.log     the newest entries of the log, see package entrylog
//	DIR/current/raft-log.db     bbolt: the other entries; made durable by each write if Config.Sync is set
//	DIR/current/raft-stable.db  bbolt: term and vote; made durable by each write
//	DIR/current/snapshots/      of raft's file store, the last two
//	DIR/current/damaged/        a snapshot that was not right, for somebody to look at
//	DIR/current/set-aside       why the files are to be set aside at the next start, if they are
//	DIR/aside-N/                what SetAside has moved away, the last two
//
// raft-log.db never becomes smaller, but what deleting entries leaves free is used again:
// it grows to the size of the longest log there has been. All of its pages are looked at
// when it is opened, in about 2 us per entry of 2 KiB if they are in memory. Check takes 5 us per
// entry behind the newest snapshot, and raft.NewRaft as much again.
//
// # Caveats
//
// When the disk is full, the node stops as after any error; Open warns when there are less
// than 64 MiB left. A snapshot that cannot be written does not stop the node, as long as the
// disk answers. Reads are not watched: a follower waits for a disk that does not let it read the
// snapshot it has just been sent, unless that is still in memory.
//
// A bit that flips in a file is found by the next Open, Check, or reader of the entry, and
// not before. Entries that a snapshot has made needless are not checked at a start. Pages
// that are whole but old, because the disk never wrote what it said it had written, are
// not found out, unless they do not fit those around them.
//
// What is in memory of the log is bounded by package entrylog, 32 MiB at the most.
//
// The lock on the directory is that of package dirs.
package raftlog
