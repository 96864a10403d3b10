// Package persistence writes snapshots of limiter state to files and reads them.
//
// A [Store] locks one directory, and loads and saves one [State] there. It saves on request, and
// when a [SavePoint] makes a save due. A [Snapshot] is a file that is open for reading. A [Saver]
// runs the saves of a state that is not saved by a Store.
//
// # Guarantees
//
// A save never damages the existing files. NAME is the file name of the snapshot (Config.Name). A
// save writes NAME.tmp, makes it durable, reads it back and verifies every block, links the current
// file to NAME.previous, renames the new file to NAME and syncs the directory. If a step fails, or
// if the process is killed at any point, NAME is a complete snapshot: the old one or the new one.
//
// A load is all or nothing. Every bit of a file is covered by a checksum, a count or a fixed value.
// A file that is modified, truncated, extended or assembled from parts of other files is rejected.
// The error contains the name of the file, the offset and the reason. If NAME is missing and NAME.previous
// exists, the load also fails. No save leaves the directory in this state, even if the process is killed, so
// something other than a save has removed NAME. NAME.previous is loaded in place of NAME only if
// Config.Fallback is set. The next save then leaves NAME.previous unchanged, because NAME is missing or
// invalid.
//
// The state may change during a save. Each record is saved as it was at some moment of the
// save; different records may be from different moments. This is sufficient for limiters,
// whose keys are independent.
//
// # Format
//
// A file begins with the magic: eight fixed bytes. Blocks follow, and nothing follows the last
// block. Numbers are little-endian.
//
//	block    type u8, length of the payload u32, payload, CRC32C u32
//	header   type 1: format u16, wall time in ns i64, limiter time in ns u64, program
//	records  type 2: records, together about 64 KiB; a larger record has its own block
//	trailer  type 3: records u64, blocks of records u64, limiter time at the end u64
//	record   kind u8, gauge u8, expires in ns u64, key, state (omitted if the kind is
//	         throttle)
//
// Program, key and state are each a uvarint length and that many bytes. If the record has a gauge,
// 32 is added to the kind. Otherwise the byte of the gauge is omitted. The checksum covers the
// offset of the block in the file as a u64, the checksum of the header as a u32 (0 for the header
// itself), and then type, length and payload. An intact block in the wrong place or file is
// therefore detected. The header is the first block and occurs once. The trailer is the last block
// and occurs once; since its size is fixed, it can be located from the end of the file.
//
// The magic, the layout of a block and the position of the format number are the same in
// every format, so a program always recognizes a file of a newer format and rejects it with
// [ErrUnknown]. An unknown kind is rejected with the same error.
//
// # Caveats
//
// The directory is locked by package fsutil. Open fails if the file system does not support
// locks on directories, as some network file systems do not.
//
// If a file system does not support hard links, NAME is copied to NAME.previous. The copy is slower and needs
// space for a third file.
package persistence
