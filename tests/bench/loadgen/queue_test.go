package loadgen

import "testing"

func TestQueue(t *testing.T) {
	var q queue[int]
	pushed, popped := 0, 0
	for round := range 5000 {
		for range round % 4 {
			q.push(pushed)
			pushed++
		}
		if q.len() > 0 {
			if got := q.pop(); got != popped {
				t.Fatalf("got %d, want %d", got, popped)
			}
			popped++
		}
		if q.len() != pushed-popped {
			t.Fatalf("length %d, want %d", q.len(), pushed-popped)
		}
	}
	for q.len() > 0 {
		q.pop()
	}
	if len(q.items) != 0 {
		t.Errorf("an empty queue holds %d items, want none", len(q.items))
	}
}
