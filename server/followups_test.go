package server

import (
	"testing"

	"github.com/throttledhq/throttled/limiter"
)

// TestLaterTokens checks the token that covers two calls of the engine.
func TestLaterTokens(t *testing.T) {
	token := func(epoch, generation uint64) limiter.CommitToken {
		return limiter.CommitToken{Epoch: epoch, Generation: generation}
	}
	for _, row := range []struct{ a, b, want limiter.CommitToken }{
		{token(1, 1), token(1, 2), token(1, 2)},
		{token(1, 2), token(1, 0), token(1, 2)},
		{token(1, 2), token(0, 0), token(1, 2)},
		{token(1, 2), token(2, 9), token(1, 2)},
		{token(0, 0), token(0, 0), token(0, 0)},
	} {
		if got := later(row.a, row.b); got != row.want {
			t.Errorf("later(%v, %v) is %v, want %v", row.a, row.b, got, row.want)
		}
	}
}
