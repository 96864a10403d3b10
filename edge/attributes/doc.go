// Package attributes derives the attributes of a request, by which rules match it, from its HTTP data: method, path, host,
// address of the client, and values of headers, cookies and tokens.
//
// [NormalizePath] returns one spelling for all spellings of a path that a server may treat alike, so that a client cannot
// avoid a limit with another spelling. [Proxies] finds the address of the client behind trusted proxies. [ParseSources]
// parses the declarations of further attributes; [Sources.Append] appends the attributes of a [Request].
//
// # Guarantees
//
//   - The name of an attribute begins with [Unverified] unless the gateway is declared to have verified its value, so rules
//     can distinguish the attributes that a client can choose.
//   - An address that a client has added to X-Forwarded-For or Forwarded is not used: the entries are read from the right,
//     up to the first one that no trusted proxy has.
//   - No value is longer than [MaxPath] bytes for a path, and [MaxValue] bytes for other attributes.
//   - Each error about a request wraps [ErrRequest] or [ErrGateway].
//
// The package is pure: it does no I/O.
package attributes

import "errors"

// The causes of errors about a request.
var (
	ErrRequest = errors.New("invalid request")                     // the client has sent invalid data
	ErrGateway = errors.New("gateway is not configured correctly") // a header that the gateway must set is missing, repeated or malformed
)

// Maximum lengths of values in bytes. They limit the memory of the keys that are made from the values.
const (
	MaxPath  = 4096 // of a path without the query
	MaxValue = 1024 // of all other values
)
