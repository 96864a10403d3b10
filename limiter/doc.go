// Package limiter defines the types that protocol servers and engines share: a request for a decision ([Request]),
// the decision ([Decision]) and the component that makes decisions ([Engine]).
//
// The package holds no state. Its only arithmetic converts and rounds times. A protocol server, such as package
// server, parses the arguments of a client into Requests, passes a batch of Requests to an Engine, and converts the
// Decisions to replies.
//
// A refusal is a Decision with Limited set, never an error. If Decision.Err is set, no
// decision was made, and nothing was charged unless the error states otherwise.
package limiter
