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
// newest is written to, the other is on its way to Base. A file is a sequence of records. Each
// is what one call of StoreLogs has written, and is filled up with zeros to a multiple of 512
// bytes, a sector. What is behind the header is scrambled: each byte by exclusive or with that of a fixed mask
// at its place in the sector. All numbers are in little endian:
//
//	"frn2"
//	u32      length of the payload
//	u32      CRC-32C of all behind the header, scrambled
//	u32      CRC-32C of the twelve bytes before
//	payload  of each entry: u32 length of what follows, u64 index, u64 term, u8 type, i64 time
//	         of appending (Unix nanoseconds, 0: none), uvarint length of the extensions,
//	         extensions, data
//
// The indexes of the entries of all files follow one upon the other, and the first is at
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
// A write that was not finished is the last record of the newest file, and lacks its end or
// some of its sectors. Open drops that, with a warning, and refuses all else that is wrong. The
// assumptions are that a disk writes a sector whole or not at all, that it loses none that it
// said it had written, and that a file that became longer has zeros where nothing was written.
// So a record is dropped if
//
//   - the file ends before it does, or
//   - its header is right, it is the last of the file, and a sector of it has nothing but zeros, or
//   - where its header should be there is a sector of zeros, and no header of a record in any
//     sector behind.
//
// Scrambled, no sector is written that has nothing but zeros, or would by one flipped bit, so
// damage to what was acknowledged is not taken for such an end. That records begin with a sector, and that there
// is one for each write, makes the rest possible: no sector is written twice, and a header
// behind what is wrong is that of a later write, which began when this one was acknowledged.
//
// # Caveats
//
// A file that was cut off, by something else than a write that was not finished, looks like a
// shorter one. A file system that shows what other files have held, where a write was not
// finished, leaves what is refused. Without Config.Sync a power cut can take entries, or leave files that are refused.
package entrylog
