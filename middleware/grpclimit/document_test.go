package grpclimit

import (
	"strings"
	"testing"

	"github.com/throttledhq/throttled/middleware/internal/testserver"
)

// TestDocument builds the programs for gRPC in docs/middleware.md.
func TestDocument(t *testing.T) {
	built := 0
	for _, program := range testserver.Programs(t) {
		if strings.Contains(program, "middleware/grpclimit") {
			testserver.BuildText(t, program)
			built++
		}
	}
	if built == 0 {
		t.Error("the document has no program for gRPC")
	}
}
