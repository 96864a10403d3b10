// Package wal implements a write-ahead log in front of a raft.LogStore. A bbolt
// transaction for each entry would cost many times more than the entry itself. In this
// package, an entry costs one append to a file. It is later moved to the base store in one
// transaction with up to a thousand other entries.
//
// [Open] returns a [Log], which is a raft.LogStore. The base store is Config.Base. Nothing else
// may modify the base store or the files while the Log is open.
//
// # Guarantees
//
// When StoreLogs returns nil, the entries survive a crash of the process and, with
// Config.Sync, a power failure. Open recovers every acknowledged entry, or returns
// [ErrDamaged] and changes nothing. Close moves all entries to Base and removes the files, so
// that Base can be used alone afterwards.
//
// After an error while writing, syncing or removing a file, or while modifying Base, every
// later call returns that error. The files are not written again, since their content is
// unknown.
//
// Memory holds the entries that are not in Base yet, and some of the newest entries that
// are. Each of the two groups takes up to about Config.MaxBytes. If entries arrive faster
// than they are moved to Base, StoreLogs blocks. StoreLogs can run during a DeleteRange of
// old entries.
//
// # Files
//
// The files are DIR/front-N.log, where N is 16 hexadecimal digits and increases. There are
// one or two files. Records are appended to the newest one, and the other one is being
// moved to Base. A file is a sequence of records. A record holds the entries of one
// StoreLogs call, and is padded with zeros to a multiple of the sector size, 512 bytes.
// All bytes after the header are scrambled: each byte is XORed with the byte at the same
// offset in a fixed mask of one sector. Numbers are little-endian:
//
//	"frn2"
//	u32      length of the payload
//	u32      CRC-32C of all bytes after the header, scrambled
//	u32      CRC-32C of the twelve bytes before
//	payload  of each entry: u32 length of the rest, u64 index, u64 term, u8 type, i64 append
//	         time (Unix nanoseconds, 0: none), uvarint length of the extensions, extensions,
//	         data
//
// The indexes of the entries in the files are always consecutive, and the first index is
// at most one above the last index of Base. Entries that do not follow the last one,
// because a snapshot was installed or because they replace other entries, are stored in
// Base immediately, after all entries of the files have been moved.
//
// # Crash recovery
//
// At any time, the entries of the files up to the last index of Base are also in Base.
// Open skips these entries and recovers the later ones. This is true after every step of
// the following operations:
//
//   - Moving entries: a transaction of Base is committed or not. A file is removed only after
//     its last entry has been moved. If the removal is lost, no harm is done: the entries of the
//     file are skipped. Moving therefore does not sync the directory.
//   - Deleting entries below the last entry of Base: the last entry remains, so Open skips
//     deleted entries that are still in the files. DeleteRange first moves entries until Base
//     has an entry above the deleted range.
//   - Deleting the last entry: all entries are moved, then the files are removed (and with
//     Config.Sync the directory is synced, since a file that reappears would restore the
//     entries), and then Base deletes. After each of these steps the log equals the log before
//     or after the deletion.
//   - Storing entries that do not follow the last one: all entries are moved, the files are
//     removed, then Base stores the new ones. A file that reappears is skipped.
//
// An incomplete write is always the last record of the newest file. Its end or some of its
// sectors are missing. Open drops the record with a warning, and rejects any other invalid
// data. This assumes that a disk writes a sector atomically, that it loses no sector after
// a successful sync, and that the unwritten part of an extended file reads as zeros. A
// record is dropped if
//
//   - the file ends before the record does, or
//   - its header is valid, it is the last of the file, and one of its sectors is all zeros, or
//   - its first sector is all zeros, and no later sector begins with a record header.
//
// Because of the scrambling, no written sector is all zeros, not even after a single bit
// flip. Damage to an acknowledged record is therefore not mistaken for an incomplete
// write. Each write is one record and begins at a sector boundary, so no sector is written
// twice. A header after invalid data belongs to a later write, which began only after the
// earlier write was acknowledged.
//
// # Caveats
//
// A file that was truncated by something other than an incomplete write cannot be
// distinguished from a shorter file. If a file system exposes old data from other files
// after an incomplete write, Open rejects the file. Without Config.Sync, a power failure
// can lose entries or leave files that Open rejects.
package wal
