package loadgen

// queue is a first-in, first-out queue.
type queue[T any] struct {
	items []T
	first int
}

func (q *queue[T]) len() int { return len(q.items) - q.first }

func (q *queue[T]) push(item T) { q.items = append(q.items, item) }

// pop removes the first item. The queue must not be empty.
func (q *queue[T]) pop() T {
	item := q.items[q.first]
	if q.first++; q.first == len(q.items) {
		q.items, q.first = q.items[:0], 0
	} else if q.first >= 1024 && q.first >= len(q.items)/2 {
		q.items, q.first = q.items[:copy(q.items, q.items[q.first:])], 0
	}
	return item
}
