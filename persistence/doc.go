// Package persistence writes snapshots of limiter state to files, and reads them back.
//
// A [Store] has one directory for itself, and loads and saves one [State] there: when it
// is told to, and by save points. A [Snapshot] is a file that is open for reading.
//
// # Guarantees
//
// A save never harms what is there. It writes NAME.tmp, makes that durable, reads it back
// and checks every block, gives the current file the second name NAME.previous, renames
// the new one over NAME and makes the names durable. Whatever fails on the way, and
// wherever the process is killed, NAME is a whole snapshot, old or new.
//
// A load is everything or nothing. Every bit of a file is covered by a checksum, a count or
// a fixed value; a file that was changed, cut, lengthened or put together differently is
// refused with its name, the offset and the reason. A missing NAME beside a NAME.previous is
// refused too: no save leaves that, wherever it is killed, so it is no first start. NAME.previous
// is taken in the place of NAME only if Config.Fallback says so, and a save after that leaves
// NAME.previous as it is.
//
// A save runs while the state changes. Each record is as it was at some moment of the
// save; different records may be of different moments. That is enough for limiters, whose
// keys know nothing of each other.
//
// # Format
//
// Eight bytes of magic, then blocks, and nothing behind the last. Numbers are
// little-endian.
//
//	block    type u8, length of the payload u32, payload, CRC32C u32
//	header   type 1: format u16, wall time in ns i64, limiter time in ns u64, program
//	records  type 2: records, together about 64 KiB; a larger record has a block of its own
//	trailer  type 3: records u64, blocks of records u64, limiter time at the end u64
//	record   kind u8, gauge u8, expires in ns u64, key, state (no such field if the kind is
//	         throttle)
//
// Program, key and state are a uvarint length and as many bytes. The kind has 32 added to it
// if the gauge follows; otherwise the gauge is unknown, and the expires follows. The checksum covers the
// offset of the block in the file as a u64, the checksum of the header as a u32 (0 for the
// header itself), and then type, length and payload, so that a whole block in the wrong
// place or file is found out too. The header comes first and once, the trailer
// last and once; since its size is fixed, it is found from the end of the file.
//
// The magic, the form of a block and the place of the format's number are the same in
// every format, so that a program always recognizes what it is too old for. A kind that
// it does not know is refused likewise, with [ErrUnknown].
//
// # Caveats
//
// The lock on the directory is that of package dirs: where the file system has none on
// directories, as some network file systems, Open fails.
//
// Where a file system has no hard links, NAME is copied to become NAME.previous, which
// takes longer and needs room for a third file.
package persistence
