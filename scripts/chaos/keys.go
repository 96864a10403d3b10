package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/throttledhq/throttled/scripts/chaos/history"
)

// keyring is all limits that the clients of a run draw on. Each kind is for a checker.
type keyring struct {
	hot    []*history.Key // run out all the time: Interval, Replies
	cold   []*history.Key // run out now and then: likewise
	ledger []*history.Key // give nothing back during a run: Ledger
	pairs  [][2]string    // are always charged together, and give nothing back
	window []string       // of other algorithms: only for company
}

const (
	hotKeys    = 20
	coldKeys   = 1000
	ledgerKeys = 8
	pairKeys   = 8
	windowKeys = 20
	day        = 24 * time.Hour
)

func newKeyring() *keyring {
	k := &keyring{}
	for i := range int64(hotKeys) {
		k.hot = append(k.hot, &history.Key{Name: fmt.Sprint("hot:", i), MaxBurst: i, Count: 1 + i/2, Period: time.Second})
	}
	for i := range int64(coldKeys) {
		k.cold = append(k.cold, &history.Key{Name: fmt.Sprint("cold:", i), MaxBurst: i % 7, Count: 1 + i%5, Period: time.Minute})
	}
	for i := range ledgerKeys {
		k.ledger = append(k.ledger, &history.Key{Name: fmt.Sprint("ledger:", i), MaxBurst: 49_999, Count: 1, Period: day})
	}
	for i := range pairKeys {
		k.pairs = append(k.pairs, [2]string{fmt.Sprint("pair:", i, ":a"), fmt.Sprint("pair:", i, ":b")})
	}
	for i := range windowKeys {
		k.window = append(k.window, fmt.Sprint("window:", i))
	}
	return k
}

const (
	linearKeys  = 6                // at a time
	linearSpan  = 15 * time.Second // for which each is in use
	linearShare = 8                // clients that use them, at the most
)

// linear returns the i-th key for Linear, which is another one every so often: so that a history
// is not longer than what can be searched. Every second one is deleted and refunded as well.
func linear(i int, now int64) history.Key {
	return history.Key{
		Name:     fmt.Sprintf("linear:%d:%d", i, now/int64(linearSpan)),
		MaxBurst: 4 + int64(i), Count: 5, Period: time.Second,
	}
}

// searchable reports whether a key is one of those.
func searchable(k *history.Key) bool { return strings.HasPrefix(k.Name, "linear:") }

// mixed reports whether the i-th key for Linear is deleted and refunded.
func mixed(i int) bool { return i%2 == 1 }
