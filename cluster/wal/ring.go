package wal

import "github.com/hashicorp/raft"

// ring holds entries with consecutive indexes. The slot of an entry is its index modulo
// the capacity.
type ring struct {
	slots       []raft.Log // the length is a power of two, or 0
	first, next uint64     // the ring holds the indexes from first to next-1, or none if first == next
}

func (r *ring) size() int { return int(r.next - r.first) }

// slot returns the slot of an index.
func (r *ring) slot(index uint64) *raft.Log { return &r.slots[index&uint64(len(r.slots)-1)] }

// get returns the entry with an index, or nil if the ring does not hold it. The pointer is valid
// until the ring is modified.
func (r *ring) get(index uint64) *raft.Log {
	if index < r.first || index >= r.next {
		return nil
	}
	return r.slot(index)
}

// add appends an entry. The index of the entry must be r.next unless the ring is empty.
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

// dropBefore removes the entries below index.
func (r *ring) dropBefore(index uint64) {
	for ; r.first < min(index, r.next); r.first++ {
		*r.slot(r.first) = raft.Log{}
	}
}

// dropFrom removes the entries from index on.
func (r *ring) dropFrom(index uint64) {
	for ; r.next > max(index, r.first); r.next-- {
		*r.slot(r.next - 1) = raft.Log{}
	}
}

// oldestOfNewest counts entries backward from the newest one. It stops after n entries, or when the
// total size of the counted entries reaches limit. It returns the index of the oldest counted entry,
// or r.next if it counted none.
func (r *ring) oldestOfNewest(n int, limit int64) uint64 {
	i := r.next
	for ; i > r.first && n > 0 && limit > 0; i-- {
		limit -= sizeOf(r.slot(i - 1))
		n--
	}
	return i
}

// sizeOf returns the approximate size of an entry in memory and in a file, in bytes.
func sizeOf(entry *raft.Log) int64 {
	const overhead = 96 // size of a raft.Log struct
	return int64(len(entry.Data)+len(entry.Extensions)) + overhead
}
