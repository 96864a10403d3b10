// Package entrylog puts an append-only file in front of a raft.LogStore. A transaction of
// bbolt for each entry costs many times what the entry does; here an entry costs one write
// to the end of a file, and reaches the store behind later, with a thousand others, in one
// transaction.
//
// [Open] returns a [Log], which is a raft.LogStore. The store behind is Config.Base; nothing
// else may change it, or the directory, while the Log is open.
//
// # Guarantees
//
// When StoreLogs returns nil, the entries survive the end of the process, and with
// Config.Sync a power cut. What is found in the files when they are opened is all that was
// acknowledged, or else Open returns [ErrDamaged] and changes nothing. Close leaves
// everything in Base and no file, so that Base can then be used alone.
//
// After an error of a write, of making one durable, of removing a file, or of changing Base,
// every later call returns that error and no file is written to again: what it holds is no
// longer known.
//
// Memory holds the entries that are not in Base yet and some of the newest that are, each up
// to about Config.MaxBytes. StoreLogs waits while Base cannot keep up with that. DeleteRange
// of old entries lets StoreLogs through meanwhile.
//
// # Files
//
// DIR/front-N.log, where N is 16 hexadecimal digits and grows. There are one or two: the
// newest is written to, the other is on its way to Base. A file is eight bytes that name the
// format, and records, all numbers in little endian:
//
//	u32      length of the payload
//	u32      CRC-32C of the payload
//	u32      CRC-32C of the eight bytes before
//	payload  u64 index, u64 term, u8 type, i64 time of appending (Unix nanoseconds, 0: none),
//	         uvarint length of the extensions, extensions, data
//
// The indexes of the records of all files follow one upon the other, and the first is at
// most one above the last of Base. There is no exception: entries that do not follow the
// last one, because a snapshot was installed or they replace others, go to Base at once,
// after everything before them.
//
// # What a crash leaves
//
// At every moment the entries of the files up to the last index of Base are in Base as well,
// so Open skips them and goes on from there. That holds between any two steps:
//
//   - Entries are moved: a transaction of Base has happened or has not. The file goes only
//     after its last entry has arrived. Nothing is lost if its removal is: its entries are
//     skipped. So moving does not make the directory durable.
//   - Entries below the last one of Base are deleted: that one stays, and tells Open to skip
//     what the files still have of those that were deleted. DeleteRange moves entries until
//     Base has such a one.
//   - The last entry is deleted: everything is moved, then the files are removed (and with
//     Config.Sync the directory is made durable, since a file that came back would bring the
//     entries back), and then Base deletes. After each of these steps the log is what it was
//     before or what it is after.
//   - Entries that do not follow are stored: everything is moved, the files are removed,
//     then Base stores them. A file that came back would be skipped.
//
// A write that was not finished leaves the beginning of a record, or zeros, at the end of the
// newest file. Open drops that, with a warning. A record that is whole but wrong is not such
// an end, even as the last of the file: it is damage. The length of a record is known from a
// header with a checksum of its own, so data that looks like records misleads nobody.
//
// # Caveats
//
// A file that was cut off exactly between two records, by something else than a write that
// was not finished, looks like a shorter one. A file system that makes a file longer before
// the data is there, and loses power in between, leaves what is taken for damage unless it
// is all zeros. Without Config.Sync a power cut can take entries, or leave files that are
// refused.
package entrylog
