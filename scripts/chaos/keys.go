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
	window []windowKey    // of other algorithms: Window or Interval
}

// windowKey is a limit of another algorithm, in the words that ask for it.
type windowKey struct {
	of    *history.Key
	limit int64    // that the replies tell
	words []string // the command, the key and its parameters
	mode  []string // behind the quantity
}

const (
	hotKeys    = 20
	coldKeys   = 1000
	ledgerKeys = 8
	pairKeys   = 8
	windowEach = 4 // of each other algorithm

	// The parameters of a key to which nothing comes back during a run, and is not used up either.
	slowBurst  = 99_999
	slowPeriod = 12 * time.Hour
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
		k.ledger = append(k.ledger, &history.Key{Name: fmt.Sprint("ledger:", i), MaxBurst: slowBurst, Count: 1, Period: slowPeriod})
	}
	for i := range pairKeys {
		k.pairs = append(k.pairs, [2]string{fmt.Sprint("pair:", i, ":a"), fmt.Sprint("pair:", i, ":b")})
	}
	for i := range int64(windowEach) {
		k.window = append(k.window, windows(i)...)
	}
	return k
}

// windowParts is into how many parts BUCKETS divides its period.
const windowParts = 5

// windows returns a key of each other algorithm, with what can be said of all of them, whatever
// the time by the clock of the cluster is when a stretch of time begins:
//
//   - LOG never admits more than the limit in a stretch that is shorter than its period.
//   - BUCKETS n does not in one that is shorter than n-1 of its n parts.
//   - FIXED admits the limit in each window of the clock, and a stretch of d touches d/period + 2
//     of them at the most. So it is with SLIDING, which never admits more in one of them.
//   - CL.BUCKET admits its capacity and the refills that come: those are at least an interval
//     apart, so d/interval + 1 at the most.
func windows(i int64) []windowKey {
	limit, period := 2+i, 1+i%2
	long := time.Duration(period) * time.Second
	window := func(mode string, of history.Key, rest ...string) windowKey {
		of.Name = fmt.Sprint("window:", mode, ":", i)
		return windowKey{&of, limit, []string{"CL.WINDOW", of.Name, itoa(limit), itoa(period)}, append([]string{mode}, rest...)}
	}
	twice := history.Key{Form: history.Bound, MaxBurst: 2*limit - 1, Count: limit, Period: long}
	log := history.Key{Form: history.Window, MaxBurst: limit - 1, Count: limit, Period: long}
	parts := log
	parts.Period = long / windowParts * (windowParts - 1)
	bucket := history.Key{Name: fmt.Sprint("bucket:", i), Form: history.Bound, MaxBurst: limit, Count: 1, Period: long}
	return []windowKey{
		window("LOG", log), window("BUCKETS", parts, itoa(windowParts)), window("FIXED", twice), window("SLIDING", twice),
		{&bucket, limit, []string{"CL.BUCKET", bucket.Name, itoa(limit), "1", itoa(period)}, nil},
	}
}

// slow returns the words for the parameters of such a key.
func slow() []string { return []string{itoa(slowBurst), "1", itoa(int64(slowPeriod / time.Second))} }

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
