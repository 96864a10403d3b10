// Package wal implements a write-ahead log in front of a raft.LogStore. A bbolt
// transaction for each entry costs many times more than the entry itself. Here an entry costs
// one append to a file, and is moved to the base store later, together with up to a thousand
// others, in one transaction.
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
// After an error of writing, syncing or removing a file, or of modifying Base, every later
// call returns that error and no file is written again, since its content is unknown.
//
// Memory holds the entries that are not in Base yet and some of the newest that are, each up
// to about Config.MaxBytes. StoreLogs blocks while moving entries to Base is too slow for this
// bound. StoreLogs can run during a DeleteRange of old entries.
//
// # Files
//
// The files are DIR/front-N.log, where N is 16 hexadecimal digits and increases. There are one
// or two: the newest is appended to, the other one is being moved to Base. A file is a sequence
// of records. A record holds the entries of one call of StoreLogs, and is padded with zeros to a
// multiple of 512 bytes, a sector. All bytes after the header are scrambled: each byte is XORed
// with the byte of a fixed mask at its offset in the sector. Numbers are little-endian:
//
//	"frn2"
//	u32      length of the payload
//	u32      CRC-32C of all bytes after the header, scrambled
//	u32      CRC-32C of the twelve bytes before
//	payload  of each entry: u32 length of the rest, u64 index, u64 term, u8 type, i64 append
//	         time (Unix nanoseconds, 0: none), uvarint length of the extensions, extensions,
//	         data
//
// The indexes of the entries in the files are consecutive, and the first is at most one above
// the last index of Base. There is no exception: entries that do not follow the last one,
// because a snapshot was installed or because they replace others, are stored in Base
// immediately, after all entries of the files have been moved.
//
// # Crash recovery
//
// At every moment, the entries of the files up to the last index of Base are in Base as well.
// Open skips them and continues after them. This holds between any two steps:
//
//   - Entries are moved: a transaction of Base is committed or not. A file is removed only after
//     its last entry has been moved. If the removal is lost, nothing else is: the entries of the
//     file are skipped. Moving therefore does not sync the directory.
//   - Entries below the last one of Base are deleted: that last one remains, so Open skips
//     deleted entries that are still in the files. DeleteRange first moves entries until Base
//     has an entry above the deleted range.
//   - The last entry is deleted: all entries are moved, then the files are removed (and with
//     Config.Sync the directory is synced, since a file that reappears would restore the
//     entries), and then Base deletes. After each of these steps the log equals the log before
//     or after the deletion.
//   - Entries that do not follow the last one are stored: all entries are moved, the files are
//     removed, then Base stores the new ones. A file that reappears is skipped.
//
// An incomplete write is the last record of the newest file, and lacks its end or some of its
// sectors. Open drops it with a warning, and rejects any other invalid data. This assumes that
// a disk writes a sector atomically, that it loses no sector after a successful sync, and that
// the unwritten part of a file that became longer reads as zeros. A record is dropped if
//
//   - the file ends before the record does, or
//   - its header is valid, it is the last of the file, and one of its sectors is all zeros, or
//   - its first sector is all zeros, and no later sector begins with a record header.
//
// Because of the scrambling, no written sector is all zeros, or would be after one bit flip, so
// damage to an acknowledged record is not mistaken for an incomplete write. Each write is one
// record and begins at a sector boundary. No sector is therefore written twice, and a header
// after invalid data belongs to a later write, which began only after the earlier one was
// acknowledged.
//
// # Caveats
//
// A file that was truncated by anything else than an incomplete write looks like a shorter
// one. If a file system exposes old data of other files after an incomplete write, Open rejects
// the file. Without Config.Sync, a power failure can lose entries or leave files that Open
// rejects.
package wal
