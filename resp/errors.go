package resp

import "fmt"

// ProtocolError names the protocol rule that a client has violated. The bytes that follow cannot be parsed, so the
// connection must be closed. For every request that Redis also rejects, the error has the same text as in Redis.
type ProtocolError string

// Error returns the text that follows "ERR " in the reply.
func (e ProtocolError) Error() string { return "Protocol error: " + string(e) }

// The protocol errors. errNoDollar returns one more, for an argument that does not begin with '$'.
const (
	ErrCount                 ProtocolError = "invalid multibulk length"
	ErrLength                ProtocolError = "invalid bulk length"
	ErrUnauthenticatedCount  ProtocolError = "unauthenticated multibulk length"
	ErrUnauthenticatedLength ProtocolError = "unauthenticated bulk length"
	ErrLongCount             ProtocolError = "too big mbulk count string"
	ErrLongLength            ProtocolError = "too big bulk count string"
	ErrLongInline            ProtocolError = "too big inline request"
	ErrManyInline            ProtocolError = "too many arguments in inline request"
	ErrQuotes                ProtocolError = "unbalanced quotes in request"
	ErrControlByte           ProtocolError = "control byte in inline request"
	ErrTrailer               ProtocolError = "expected CR LF after argument"
	ErrQueryTooLong          ProtocolError = "request exceeds the query buffer limit"
)

func errNoDollar(got byte) ProtocolError {
	if got < ' ' || got > '~' {
		return ProtocolError(fmt.Sprintf("expected '$', got '\\x%02x'", got))
	}
	return ProtocolError(fmt.Sprintf("expected '$', got '%c'", got))
}
