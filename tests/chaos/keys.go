package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

// keyring holds all limits that the clients of a run use. The comment of each field names the functions,
// most of them in package check, that verify the histories of its keys.
type keyring struct {
	hot    []*history.Key // often exhausted: Interval, Replies
	cold   []*history.Key // sometimes exhausted: Interval, Replies
	ledger []*history.Key // nothing is restored during a run: Ledger, Witness
	pairs  [][2]string    // the two keys of a pair are always charged together, and nothing is restored: judgePairs
	window []windowKey    // limits of other algorithms: Window or Interval
}

// windowKey is a limit of an algorithm other than GCRA, with the arguments of its command.
type windowKey struct {
	of    *history.Key
	limit int64    // expected in the replies
	words []string // the command, the key and its parameters
	mode  []string // arguments after the quantity
}

const (
	hotKeys    = 20
	coldKeys   = 1000
	ledgerKeys = 8
	pairKeys   = 8
	windowEach = 4 // keys of each algorithm other than GCRA

	// The parameters of a key that restores nothing during a run, and is not exhausted either.
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

// windowParts is the number of parts into which BUCKETS divides its period.
const windowParts = 5

// windows returns one key for each algorithm other than GCRA. The bound of a key holds in any
// interval, regardless of where the interval begins on the clock of the cluster:
//
//   - LOG never admits more than the limit in an interval shorter than its period.
//   - BUCKETS n never admits more than the limit in an interval shorter than n-1 of its n parts.
//   - FIXED admits the limit in each window of the clock, and an interval of length d overlaps at
//     most d/period + 2 windows. The same bound holds for SLIDING, which never admits more than the
//     limit in such a window either.
//   - CL.BUCKET admits its capacity and the refills. Refills are at least an emission interval
//     apart, so there are at most d/(emission interval) + 1 in an interval of length d.
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

// slow returns the parameters of a key that restores nothing during a run.
func slow() []string { return []string{itoa(slowBurst), "1", itoa(int64(slowPeriod / time.Second))} }

const (
	linearKeys  = 6                // number of keys for check.Linear in use at a time
	linearSpan  = 15 * time.Second // time for which each key is in use
	linearShare = 8                // largest number of clients that use these keys
)

// linear returns the i-th of the keys whose histories check.Linear verifies, as it is at the time
// now. Every linearSpan, a new key replaces the i-th key, which keeps each history short enough for
// the search. Keys with odd i are also deleted and refunded.
func linear(i int, now int64) history.Key {
	return history.Key{
		Name:     fmt.Sprintf("linear:%d:%d", i, now/int64(linearSpan)),
		MaxBurst: 4 + int64(i), Count: 5, Period: time.Second,
	}
}

// searchable reports whether check.Linear verifies the history of a key.
func searchable(k *history.Key) bool { return strings.HasPrefix(k.Name, "linear:") }

// mixed reports whether the i-th of the keys for check.Linear is also deleted and refunded.
func mixed(i int) bool { return i%2 == 1 }
