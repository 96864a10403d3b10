package limiter

import (
	"errors"
	"math"
	"testing"
	"time"
)

// TestKindNames checks the names of the kinds, which must not change: the replies of TYPE and OBJECT ENCODING are
// part of the protocol.
func TestKindNames(t *testing.T) {
	f := func(k Kind, name, encoding string) {
		t.Helper()
		if k.String() != name || k.Encoding() != encoding {
			t.Errorf("kind %d has the name %q and the encoding %q, want %q and %q", k, k.String(), k.Encoding(), name, encoding)
		}
	}
	f(0, "none", "none")
	f(Throttle, "throttle", "gcra")
	f(SlidingWindow, "window", "sliding")
	f(FixedWindow, "window", "fixed")
	f(WindowBuckets, "window", "buckets")
	f(WindowLog, "window", "log")
	f(TokenBucket, "bucket", "tokens")
	f(LeakyBucket, "leaky", "queue")
	f(ScaledThrottle, "throttle", "gcra")
	f(ScaledBucket, "bucket", "tokens")
	f(ScaledLeaky, "leaky", "queue")
	f(Calendar, "window", "calendar")
	f(Ban, "ban", "ban")
	f(13, "none", "none")
	f(200, "none", "none")
}

// TestKindValues checks the numeric values of the kinds, which are stored with keys and must not change.
func TestKindValues(t *testing.T) {
	kinds := []Kind{Throttle, SlidingWindow, FixedWindow, WindowBuckets, WindowLog, TokenBucket, LeakyBucket,
		ScaledThrottle, ScaledBucket, ScaledLeaky, Calendar, Ban}
	for i, k := range kinds {
		if int(k) != i+1 || !k.Known() {
			t.Errorf("kind %v has the value %d, and Known returns %t; want Known true and the value %d, because the values are stored with keys", k, k, k.Known(), i+1)
		}
	}
	if LeakyBucket.OfRules() || !ScaledThrottle.OfRules() || !Ban.OfRules() || Kind(0).OfRules() || (Ban + 1).OfRules() {
		t.Error("OfRules is wrong for a kind")
	}
	if Kind(0).Known() || Kind(len(kinds)+1).Known() {
		t.Error("Known returns true for kind 0 or for the kind after the last one of this test, want false for both")
	}
}

func TestPeriod(t *testing.T) {
	for _, tt := range []struct {
		p    Period
		want time.Duration
		ok   bool
	}{
		{Seconds(60), time.Minute, true},
		{Period{250, time.Millisecond}, 250 * time.Millisecond, true},
		{Seconds(0), 0, false},
		{Seconds(-1), 0, false},
		{Seconds(9_223_372_036), 9_223_372_036 * time.Second, true},
		{Seconds(9_223_372_037), 0, false},
		{Period{math.MaxInt64, 1}, math.MaxInt64, true},
	} {
		if got, ok := tt.p.Duration(); got != tt.want || ok != tt.ok {
			t.Errorf("%+v.Duration() = %v, %t; want %v, %t", tt.p, got, ok, tt.want, tt.ok)
		}
	}
}

func TestCeil(t *testing.T) {
	for _, tt := range []struct {
		d, unit time.Duration
		want    int64
	}{
		{NoRetry, time.Second, -1},
		{0, time.Second, 0},
		{1, time.Second, 1},
		{time.Millisecond - 1, time.Second, 1},
		{time.Second - 1, time.Second, 1},
		{time.Second, time.Second, 1},
		{time.Second + 1, time.Second, 2},
		{2*time.Second + 400*time.Microsecond, time.Second, 3},
		{math.MaxInt64, time.Second, 9_223_372_037},
		{9_223_372_036 * time.Second, time.Second, 9_223_372_036},
		{9_223_372_035*time.Second + 1, time.Second, 9_223_372_036},
		{NoRetry, time.Millisecond, -1},
		{1, time.Millisecond, 1},
		{time.Second, time.Millisecond, 1000},
		{time.Second + 1, time.Millisecond, 1001},
		{math.MaxInt64, time.Millisecond, 9_223_372_036_855},
	} {
		if got := Ceil(tt.d, tt.unit); got != tt.want {
			t.Errorf("Ceil(%d, %v) = %d, want %d", tt.d, tt.unit, got, tt.want)
		}
	}
}

// TestWrongKindError checks that a WrongKindError of every kind wraps ErrWrongKind and names the algorithm, and that
// converting it to an error does not allocate.
func TestWrongKindError(t *testing.T) {
	var sink error
	for k := Throttle; k.Known(); k++ {
		err := error(WrongKindError(k))
		if !errors.Is(err, ErrWrongKind) || errors.Is(err, ErrSameKey) {
			t.Errorf("%v: the error must wrap ErrWrongKind, and must not wrap ErrSameKey", err)
		}
		if want := "key is in use by another kind of limiter: " + k.String() + " (" + k.Encoding() + ")"; err.Error() != want {
			t.Errorf("the text of the error is %q, want %q", err, want)
		}
		if n := testing.AllocsPerRun(100, func() { sink = WrongKindError(k) }); n != 0 {
			t.Errorf("%v: the conversion to an error makes %v allocations, want 0", sink, n)
		}
	}
}

// TestDecision_Outranks checks that each decision of a list outranks those before it.
func TestDecision_Outranks(t *testing.T) {
	ranks := []Decision{
		{Remaining: 2, RetryAfter: NoRetry, ResetAfter: 9}, {Remaining: 1, RetryAfter: NoRetry, ResetAfter: 1}, {Remaining: 1, RetryAfter: NoRetry, ResetAfter: 2},
		{Limited: true, RetryAfter: 1}, {Limited: true, RetryAfter: 1 << 62}, {Limited: true, RetryAfter: NoRetry},
	}
	for i := range ranks {
		for j := range ranks {
			if got := ranks[i].Outranks(&ranks[j]); got != (i > j) {
				t.Errorf("%+v outranks %+v: %t, want %t", ranks[i], ranks[j], got, i > j)
			}
		}
	}
}
