package window_test

import (
	"fmt"
	"time"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/window"
)

// key is a minimal implementation of the stored state of a key.
type key struct{ state limiter.State }

func (k *key) apply(ch limiter.Change) {
	if ch.Set {
		k.state.Expires = ch.Expires
		k.state.Data = append(k.state.Data[:ch.Keep], ch.Tail...)
	}
}

func show(at string, d limiter.Decision) {
	fmt.Printf("%s limited %-5t %3d left, retry after %d s, full after %d s\n", at,
		d.Limited, d.Remaining, limiter.Ceil(d.RetryAfter, time.Second), limiter.Ceil(d.ResetAfter, time.Second))
}

// clock returns a time of day as a limiter time.
func clock(hour, minute uint64) uint64 { return (19_700*24*60 + hour*60 + minute) * 60e9 }

// The limit is 100 units an hour. 84 units are charged between 8:00 and 9:00, and 36 units between
// 9:00 and 9:15. At 9:15, 99 units are used.
func ExampleSlide() {
	l, err := window.NewLimit(100, limiter.Seconds(3600), 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	var k key
	for _, r := range []struct {
		hour, minute uint64
		quantity     int64
	}{{8, 30, 84}, {9, 15, 36}, {9, 15, 1}, {9, 15, 1}, {9, 45, 1}} {
		ch, d := window.Slide(&l, k.state, clock(r.hour, r.minute), r.quantity, nil)
		k.apply(ch)
		show(fmt.Sprintf("%d:%02d", r.hour, r.minute), d)
	}
	// Output:
	// 8:30 limited false  16 left, retry after -1 s, full after 5400 s
	// 9:15 limited false   1 left, retry after -1 s, full after 6300 s
	// 9:15 limited false   0 left, retry after -1 s, full after 6300 s
	// 9:15 limited true    0 left, retry after 43 s, full after 6300 s
	// 9:45 limited false  41 left, retry after -1 s, full after 4500 s
}

// A fixed window admits up to twice the limit around the boundary of two windows.
func ExampleCount() {
	l, _ := window.NewLimit(100, limiter.Seconds(3600), 1)
	var k key
	for _, minute := range []uint64{59, 59, 60} {
		ch, d := window.Count(&l, k.state, clock(8, minute), 100, nil)
		k.apply(ch)
		show(fmt.Sprintf("8:%d", minute), d)
	}
	// Output:
	// 8:59 limited false   0 left, retry after -1 s, full after 60 s
	// 8:59 limited true    0 left, retry after 60 s, full after 60 s
	// 8:60 limited false   0 left, retry after -1 s, full after 3600 s
}

// The limit of 100 units an hour has three sub-windows. All units of a sub-window expire together.
// The state is modified in place, and the memory of room is reused for each decision.
func ExampleCount_buckets() {
	l, _ := window.NewLimit(100, limiter.Seconds(3600), 3)
	room := make([]byte, 0, 64)
	var k key
	for _, r := range []struct {
		minute   uint64
		quantity int64
	}{{5, 60}, {25, 40}, {59, 1}, {60, 60}, {61, -20}, {62, 0}} {
		ch, d := window.Count(&l, k.state, clock(8, r.minute), r.quantity, room)
		k.apply(ch)
		show(fmt.Sprintf("8:%02d", r.minute), d)
	}
	// Output:
	// 8:05 limited false  40 left, retry after -1 s, full after 3300 s
	// 8:25 limited false   0 left, retry after -1 s, full after 3300 s
	// 8:59 limited true    0 left, retry after 60 s, full after 1260 s
	// 8:60 limited false   0 left, retry after -1 s, full after 3600 s
	// 8:61 limited false  20 left, retry after -1 s, full after 3540 s
	// 8:62 limited false  20 left, retry after -1 s, full after 3480 s
}

func ExampleNewLimit() {
	l, err := window.NewLimit(100, limiter.Seconds(3600), 3)
	fmt.Println(l.Max, l.Interval, l.Amount, err)
	_, err = window.NewLimit(100, limiter.Seconds(3600), 5000)
	fmt.Println(err)
	// Output:
	// 100 20m0s 3 <nil>
	// rate limit parameters out of range
}
