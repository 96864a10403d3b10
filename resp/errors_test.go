package resp

import "testing"

// TestProtocolErrorTexts checks that the errors have the same texts as in Redis. Clients and operators may rely on
// these texts.
func TestProtocolErrorTexts(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{ErrCount, "Protocol error: invalid multibulk length"},
		{ErrLength, "Protocol error: invalid bulk length"},
		{ErrUnauthenticatedCount, "Protocol error: unauthenticated multibulk length"},
		{ErrUnauthenticatedLength, "Protocol error: unauthenticated bulk length"},
		{ErrLongCount, "Protocol error: too big mbulk count string"},
		{ErrLongLength, "Protocol error: too big bulk count string"},
		{ErrLongInline, "Protocol error: too big inline request"},
		{ErrQuotes, "Protocol error: unbalanced quotes in request"},
		{errNoDollar('*'), "Protocol error: expected '$', got '*'"},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("the text of the error is %q, want %q", got, tt.want)
		}
	}
}
