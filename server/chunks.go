package server

const (
	leastChunk = 1 << 10 // minimum size of a piece, in bytes
	chunkSize  = flushAt // maximum size of a piece, and of a write, in bytes
)

// chunks is a queue of bytes, stored in pieces. Consumed pieces are freed, so that a long queue uses little more memory
// than its contents. The zero value is an empty queue.
type chunks struct {
	list [][]byte
	size int // memory of the pieces in bytes
}

// push appends a copy of b. A new piece is as large as the queue, or as b if b is larger, from leastChunk to chunkSize
// bytes. Thus a short queue uses little memory, and a long queue has few pieces.
func (q *chunks) push(b []byte) {
	for len(b) > 0 {
		if q.spare() == 0 {
			n := min(chunkSize, max(leastChunk, len(b), q.size))
			q.list = append(q.list, make([]byte, 0, n))
			q.size += n
		}
		last := &q.list[len(q.list)-1]
		n := min(len(b), q.spare())
		*last = append(*last, b[:n]...)
		b = b[n:]
	}
}

// spare returns the number of free bytes in the last piece.
func (q *chunks) spare() int {
	if len(q.list) == 0 {
		return 0
	}
	last := q.list[len(q.list)-1]
	return cap(last) - len(last)
}

// pop removes and returns the first piece, or returns nil if the queue is empty.
func (q *chunks) pop() []byte {
	if len(q.list) == 0 {
		return nil
	}
	b := q.list[0]
	q.list[0] = nil
	q.list = q.list[1:]
	if len(q.list) == 0 {
		q.list = nil
	}
	q.size -= cap(b)
	return b
}
