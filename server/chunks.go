package server

const (
	leastChunk = 1 << 10
	chunkSize  = flushAt // of a queue that is long; one write takes no more
)

// chunks is a queue of bytes that is held in pieces, so that those which have been taken
// can be freed, and a long queue takes no more memory than its bytes. The zero value is empty.
type chunks struct {
	list [][]byte
	size int // bytes of memory
}

// push adds a copy of b. Pieces grow with the queue: most queues are short.
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

// spare returns how many bytes fit in without another piece.
func (q *chunks) spare() int {
	if len(q.list) == 0 {
		return 0
	}
	last := q.list[len(q.list)-1]
	return cap(last) - len(last)
}

// pop takes the first piece, or nil.
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
