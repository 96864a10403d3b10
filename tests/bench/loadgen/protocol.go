package loadgen

import "errors"

// Outcome is the result of one request.
type Outcome int

// Outcomes of requests.
const (
	Admitted Outcome = iota
	Refused
	Failed // neither admitted nor refused
)

// Reply is the reply to one request.
type Reply struct {
	Request uint32 // the number that Protocol.Append has returned; 0 for HTTP
	Outcome Outcome
	Text    string // reason of a failure
}

// Protocol encodes the requests of one connection, and parses its replies.
type Protocol interface {
	// Open appends the bytes that a client sends first.
	Open(out []byte) []byte
	// Append appends a request, and returns its number.
	Append(out []byte, key uint64) ([]byte, uint32)
	// Parse appends the complete replies of a buffer to replies, and the bytes that the protocol requires as an answer
	// to out. It returns the number of bytes parsed. An error means that the connection is unusable.
	Parse(in, out []byte, replies []Reply) (parsed int, _ []byte, _ []Reply, err error)
}

var errReply = errors.New("malformed reply")
