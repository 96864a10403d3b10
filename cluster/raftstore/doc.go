// Package raftstore implements the durable storage of a hashicorp/raft node, and detects
// failures of the disk and of hashicorp/raft, which is called the library below.
//
// A [Store] locks one directory. It holds the log, the term and the vote, the snapshots,
// and the [Identity] of the node. [Inspect], [Replay] and [Recover] are operator tools for a node
// that is not running. [InstallGuard] and [TransferGuard] detect states from which the
// library does not recover. [Logger] adapts a slog.Logger to the library.
//
// A node that starts calls Open, Identity, Claim, Check and raft.NewRaft, in this order.
//
// # Guarantees
//
// After the first failed write, sync or read, the log and the vote are not accessed again,
// because a disk reports a lost write only once: a retry can succeed without making the data
// durable. (A read of an absent entry is not a failure.) The error is passed to Config.Fatal,
// which exits the process, and later calls fail.
//
// An operation that modifies a file, including a snapshot file, also fails if it takes longer than
// Config.Limit. Otherwise the node would wait forever for a disk that does not respond, and would still
// answer heartbeats like a node that works. If an operation has many steps, such as a deletion, the limit
// applies to each step.
//
// Corrupt data is rejected. All pages of a database are verified when the database is opened.
// The identity, the snapshots, each entry of the log, and each value of the stable store (the term and the
// vote) have checksums. If there is an identity, an empty or missing database is rejected: it has existed
// before, so the votes of the node are lost.
//
// Deleting many entries does not block storing new ones.
//
// # Files
//
//	DIR/current/identity.json   cluster, node, incarnation, creation time, checksum
//	DIR/current/front-N.log     the newest entries of the log, see package wal
//	DIR/current/raft-log.db     bbolt: the other entries; synced by each write if Config.Sync is set
//	DIR/current/raft-stable.db  bbolt: term and vote; synced by each write
//	DIR/current/snapshots/      the last two snapshots, in the format of raft.FileSnapshotStore
//	DIR/current/damaged/        a corrupt snapshot, for inspection by the operator
//	DIR/current/set-aside       the reason for setting the files aside at the next start, if requested
//	DIR/aside-N/                directories moved by SetAside, the last two
//
// raft-log.db never shrinks, but reuses the space of deleted entries. Its size is therefore
// determined by the largest log that it has contained. Open verifies all of its pages, in about 2 us per
// entry of 2 KiB if the pages are in the page cache. For each entry after the newest snapshot, Check takes 5
// us and raft.NewRaft another 5 us.
//
// # Caveats
//
// If the disk is full, a write fails, and the node stops as after any other error. Open logs a
// warning when less than 64 MiB are free. If a snapshot cannot be written, the node continues. It stops only
// if the disk does not respond. The watchdog, which enforces Config.Limit, does not watch reads. If the disk
// does not respond while a follower reads the snapshot that it has just received, the follower therefore
// blocks, except if the snapshot is still in the page cache.
//
// A flipped bit in a file is detected only by the next Open or Check, or when the entry with this bit is
// read. Entries covered by a snapshot are not checked at startup. If a disk acknowledges the write of a page
// but keeps the old content, the old page is detected only if it is inconsistent with other pages.
//
// The newest entries are kept in memory, where they take up to 32 MiB. Package wal enforces this
// limit.
//
// The directory is locked by package fsutil.
package raftstore
