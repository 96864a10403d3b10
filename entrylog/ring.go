package entrylog

import "github.com/hashicorp/raft"

// ring holds entries of consecutive indexes, each at the place that its index says.
type ring struct {
	slots       []raft.Log // a power of two of them, or none
	first, next uint64     // it holds first to next-1; none if they are equal
}

func (r *ring) size() int { return int(r.next - r.first) }

// slot is where an index is or would be.
func (r *ring) slot(index uint64) *raft.Log { return &r.slots[index&uint64(len(r.slots)-1)] }

// get returns an entry, or nil. What it points to changes when the ring does.
func (r *ring) get(index uint64) *raft.Log {
	if index < r.first || index >= r.next {
		return nil
	}
	return r.slot(index)
}

// add appends an entry, whose index is next unless the ring is empty.
func (r *ring) add(entry *raft.Log) {
	if r.size() == 0 {
		r.first, r.next = entry.Index, entry.Index
	}
	if r.size() == len(r.slots) {
		r.grow()
	}
	*r.slot(entry.Index) = *entry
	r.next++
}

func (r *ring) grow() {
	old := *r
	r.slots = make([]raft.Log, max(64, 2*len(old.slots)))
	for i := old.first; i < old.next; i++ {
		*r.slot(i) = *old.slot(i)
	}
}

// dropBefore lets go of the entries below index.
func (r *ring) dropBefore(index uint64) {
	for ; r.first < min(index, r.next); r.first++ {
		*r.slot(r.first) = raft.Log{}
	}
}

// dropFrom lets go of the entries from index on.
func (r *ring) dropFrom(index uint64) {
	for ; r.next > max(index, r.first); r.next-- {
		*r.slot(r.next - 1) = raft.Log{}
	}
}

// newest returns from which index on the entries are at most n and, but for one, have at
// most limit bytes.
func (r *ring) newest(n int, limit int64) uint64 {
	i := r.next
	for ; i > r.first && n > 0 && limit > 0; i-- {
		limit -= sizeOf(r.slot(i - 1))
		n--
	}
	return i
}

// sizeOf is about what an entry occupies in memory and in a file, in bytes.
func sizeOf(entry *raft.Log) int64 {
	const overhead = 96 // of the structure; a record has less
	return int64(len(entry.Data)+len(entry.Extensions)) + overhead
}
