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

// boundOf returns the bound of a limit of CL.WINDOW. It holds in any interval, regardless of where the interval begins on the clock of
// the cluster:
//
//   - LOG never admits more than the limit in an interval shorter than its period.
//   - BUCKETS, with windowParts parts, never admits more than the limit in an interval shorter than all parts but one.
//   - FIXED admits the limit in each window of the clock, and an interval of length d overlaps at
//     most d/period + 2 windows. The same bound holds for SLIDING, which never admits more than the
//     limit in such a window either.
func boundOf(mode string, limit int64, period time.Duration) history.Key {
	k := history.Key{Form: history.Window, MaxBurst: limit - 1, Count: limit, Period: period}
	switch mode {
	case "BUCKETS":
		k.Period = period / windowParts * (windowParts - 1)
	case "FIXED", "SLIDING":
		k.Form, k.MaxBurst = history.Bound, 2*limit-1
	}
	return k
}

// bucketBound returns the bound of a limit of CL.BUCKET, which admits its capacity and the refills. Refills are at least an interval
// apart, so there are at most d/interval + 1 in an interval of length d.
func bucketBound(capacity, refill int64, interval time.Duration) history.Key {
	return history.Key{Form: history.Bound, MaxBurst: capacity + refill - 1, Count: refill, Period: interval}
}

// windowOf returns a limit of CL.WINDOW.
func windowOf(mode, name string, limit, seconds int64) windowKey {
	of := boundOf(mode, limit, time.Duration(seconds)*time.Second)
	of.Name = name
	args := []string{mode}
	if mode == "BUCKETS" {
		args = append(args, itoa(windowParts))
	}
	return windowKey{&of, limit, []string{"CL.WINDOW", name, itoa(limit), itoa(seconds)}, args}
}

// bucketOf returns a limit of CL.BUCKET.
func bucketOf(name string, capacity, refill, seconds int64) windowKey {
	of := bucketBound(capacity, refill, time.Duration(seconds)*time.Second)
	of.Name = name
	return windowKey{&of, capacity, []string{"CL.BUCKET", name, itoa(capacity), itoa(refill), itoa(seconds)}, nil}
}

// windows returns one key for each algorithm other than GCRA.
func windows(i int64) (keys []windowKey) {
	limit, period := 2+i, 1+i%2
	for _, mode := range []string{"LOG", "BUCKETS", "FIXED", "SLIDING"} {
		keys = append(keys, windowOf(mode, fmt.Sprint("window:", mode, ":", i), limit, period))
	}
	return append(keys, bucketOf(fmt.Sprint("bucket:", i), limit, 1, period))
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
