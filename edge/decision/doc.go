// Package decision runs the limiter commands of the server for the HTTP and gRPC servers, and returns the decisions as
// Go values.
//
// A [Checker] encodes requests as commands of the Redis protocol, runs them with a [Runner], and decodes the replies.
// The commands are those of other clients, so requests are forwarded to the leader, charged, and answered without a
// leader, by the same rules. A Checker keeps idle Runners for later calls; it is safe for concurrent use.
//
// An error reply to a command is an [*Error] in the [Result] of the request. Any other error means that the command may
// or may not have been run.
package decision
