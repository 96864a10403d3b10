package server

import (
	"errors"
	"testing"

	"github.com/throttledhq/throttled/limiter"
)

// TestOutcome sees who is told that it may have been charged: whoever was to be admitted, and
// nobody else.
func TestOutcome(t *testing.T) {
	failed := errors.New("failed")
	one, none := limiter.Request{Quantity: 1}, limiter.Request{}
	admitted, refused := limiter.Decision{}, limiter.Decision{Limited: true}
	for _, tc := range []struct {
		what string
		reqs []limiter.Request
		out  []limiter.Decision
		lost error
		want error
	}{
		{"a charge", []limiter.Request{one}, []limiter.Decision{admitted}, nil, nil},
		{"a charge that is uncertain", []limiter.Request{one}, []limiter.Decision{admitted}, limiter.ErrUncertain, limiter.ErrUncertain},
		{"a charge that was not made", []limiter.Request{one}, []limiter.Decision{admitted}, limiter.ErrNotLeading, limiter.ErrNotLeading},
		{"a peek", []limiter.Request{none}, []limiter.Decision{admitted}, limiter.ErrUncertain, limiter.ErrNotLeading},
		{"a refusal", []limiter.Request{one}, []limiter.Decision{refused}, limiter.ErrUncertain, limiter.ErrNotLeading},
		{"a group that is refused", []limiter.Request{one, one}, []limiter.Decision{admitted, refused}, limiter.ErrUncertain, limiter.ErrNotLeading},
		{"a group of which one only peeks", []limiter.Request{none, one}, []limiter.Decision{admitted, admitted}, limiter.ErrUncertain, limiter.ErrUncertain},
		{"an error of the decision", []limiter.Request{one, one}, []limiter.Decision{admitted, {Err: failed}}, limiter.ErrUncertain, failed},
		{"any other error", []limiter.Request{one}, []limiter.Decision{admitted}, failed, failed},
	} {
		if got := new(call).outcome(tc.reqs, tc.out, tc.lost); got != tc.want {
			t.Errorf("%s: %v; want %v", tc.what, got, tc.want)
		}
	}
}
