package lessee

// timer is the next time at which an account is examined.
type timer struct {
	account *account
	at      int64
	index   int // in timers; -1 if it is not scheduled
}

// timers is a heap of timers, for package heap. The first one is due next.
type timers []*timer

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at < t[j].at }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	added := x.(*timer)
	added.index = len(*t)
	*t = append(*t, added)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	old := *t
	last := old[len(old)-1]
	old[len(old)-1] = nil
	last.index = -1
	*t = old[:len(old)-1]
	return last
}
