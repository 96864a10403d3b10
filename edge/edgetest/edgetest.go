// Package edgetest runs commands on the server behind the HTTP and gRPC servers, for their tests.
//
// Only tests import it.
package edgetest

import (
	"testing"

	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/resp"
)

// Run runs a command as an administrator, and closes the runner. The test fails if the reply is an error.
func Run(t testing.TB, r decision.Runner, words ...string) {
	t.Helper()
	defer r.Close()
	var command resp.Reply
	command.Array(len(words))
	for _, word := range words {
		command.Bulk([]byte(word))
	}
	replies, err := r.Run(command.Bytes(), nil)
	if err != nil || len(replies) == 0 || replies[0] == '-' {
		t.Fatalf("%q: %q, %v", words, replies, err)
	}
}
