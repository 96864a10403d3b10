package resp

import "fmt"

// ProtocolError says which rule of the protocol a client broke. The bytes that follow
// have no meaning any more, so the connection has to be closed. Its text is the one
// that Redis sends, where Redis refuses the same.
type ProtocolError string

// Error returns the text behind "ERR " in the reply.
func (e ProtocolError) Error() string { return "Protocol error: " + string(e) }

// The ways to break the protocol, but for the byte that stands in place of a '$'.
const (
	ErrCount        ProtocolError = "invalid multibulk length"
	ErrLength       ProtocolError = "invalid bulk length"
	ErrGuestCount   ProtocolError = "unauthenticated multibulk length"
	ErrGuestLength  ProtocolError = "unauthenticated bulk length"
	ErrLongCount    ProtocolError = "too big mbulk count string"
	ErrLongLength   ProtocolError = "too big bulk count string"
	ErrLongInline   ProtocolError = "too big inline request"
	ErrManyInline   ProtocolError = "too many arguments in inline request"
	ErrQuotes       ProtocolError = "unbalanced quotes in request"
	ErrControlByte  ProtocolError = "control byte in inline request"
	ErrTrailer      ProtocolError = "expected CR LF after argument"
	ErrQueryTooLong ProtocolError = "request exceeds the query buffer limit"
)

func errNoDollar(got byte) ProtocolError {
	if got < ' ' || got > '~' {
		return ProtocolError(fmt.Sprintf("expected '$', got '\\x%02x'", got))
	}
	return ProtocolError(fmt.Sprintf("expected '$', got '%c'", got))
}
