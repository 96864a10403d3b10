// Package wal implements a write-ahead log in front of a raft.LogStore, the base store. Storing
// each entry in its own bbolt transaction is expensive. A [Log] instead appends each entry to a
// file. It later moves the entry to the base store, in one transaction with up to a thousand other
// entries.
//
// [Open] returns a [Log], which is a raft.LogStore. The base store is Config.Base. Nothing else
// may modify the base store or the files while the Log is open.
//
// # Guarantees
//
// When StoreLogs returns nil, its entries are acknowledged. They survive a crash of the process
// and, with Config.Sync, a power failure. Open recovers every acknowledged entry. If the files are
// damaged, Open returns an error that wraps [ErrDamaged] and changes nothing. Close moves all entries
// to Base and removes the files, so that Base can be used alone afterwards.
//
// After an error while writing, syncing or removing a file, or while modifying Base, every
// later call returns that error. The files are not written again, since their content is
// unknown.
//
// Memory holds two groups of entries: those that are not in Base yet, and some of the newest
// entries of Base. Each of the two groups takes up to about Config.MaxBytes. If entries arrive
// faster than they are moved to Base, StoreLogs blocks. StoreLogs can run while DeleteRange
// deletes old entries.
//
// # Files
//
// The files are DIR/front-N.log, where N is a number of 16 hexadecimal digits that increases with
// each file. There are one or two files. Records are appended to the newest file. If there is an
// older file, its entries are being moved to Base. A file is a sequence of records. A record holds
// the entries of one StoreLogs call, and is padded with zeros to a multiple of the sector size, 512
// bytes. A record begins with a header of 16 bytes. All bytes after the header are scrambled: each byte is
// XORed with the byte at the same offset (within the sector) of a fixed mask. Numbers are little-endian. The
// format of a record is:
//
//	"frn2"
//	u32      length of the payload
//	u32      CRC-32C of the scrambled bytes after the header
//	u32      CRC-32C of the first twelve bytes of the record
//	payload  of each entry: u32 length of the rest, u64 index, u64 term, u8 type, i64 append
//	         time (Unix nanoseconds, 0: none), uvarint length of the extensions, extensions,
//	         data
//
// The indexes of the entries in the files are always consecutive, and the first of these indexes is at
// most one above the last index of Base. StoreLogs can receive entries that do not follow the
// last one: after a snapshot was installed, or to replace existing entries. It then moves all
// entries of the files to Base, and stores the new entries directly in Base.
//
// # Crash recovery
//
// Of the entries in the files, Open skips those whose index is at most the last index of Base, and recovers
// the others. Each skipped entry is also in Base, or was replaced or deleted. This is true even if a crash
// interrupts one of the following operations, after any of its steps:
//
//   - Moving entries: a transaction of Base is committed completely or not at all. A file is
//     removed only after its last entry has been moved. If the file reappears after a power
//     failure, Open skips its entries. It is therefore not necessary to sync the directory after the removal.
//   - Deleting entries before the last entry of the log: DeleteRange first moves entries until
//     Base has an entry above the deleted range. That entry remains in Base, so Open skips deleted
//     entries that are still in the files.
//   - Deleting the last entry: DeleteRange moves all entries, removes the files, and then deletes
//     the range from Base. With Config.Sync, it syncs the directory before the deletion, because
//     a file that reappears after a power failure would restore the entries. After each of these
//     steps, either all entries of the range exist or none of them.
//   - Storing entries that do not follow the last one: all entries are moved, the files are
//     removed, then Base stores the new entries. If a file reappears after a power failure, Open
//     skips its entries.
//
// A write that was interrupted by a crash is always the last record of the newest file. The end or
// some sectors of this incomplete record are missing. Open drops the record with a warning. If
// Open finds any other invalid data, it rejects the file. These rules assume that a disk writes a
// sector atomically, that it loses no sector after a successful sync, and that the unwritten part
// of an extended file reads as zeros. A record is dropped if
//
//   - the file ends before the record does, or
//   - its header is valid, it is the last record of the file, and one of its sectors is all zeros, or
//   - its first sector is all zeros, and no later sector begins with a record header.
//
// Because of the scrambling, no written sector is all zeros, not even after a single bit flip, unless its
// data is almost the same as the mask. Damage to an acknowledged record is therefore not mistaken for an
// incomplete write. Each write is one record and begins at a sector boundary, so no sector is written twice.
// A header after invalid data belongs to a later write. That write began after the invalid record had been
// acknowledged, so the invalid data is damage, and Open rejects the file.
//
// # Caveats
//
// Open cannot detect that the newest file was truncated after its records were acknowledged: the file looks
// like a shorter file without damage, or like a file that ends with an incomplete write. If the unwritten
// part of an incomplete write contains old data of other files, Open rejects the file. Without Config.Sync, a
// power failure can lose entries or leave files that Open rejects.
package wal
