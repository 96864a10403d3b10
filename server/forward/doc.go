// Package forward sends commands to the leader of a cluster and returns its replies.
//
// A [Forwarder] keeps a bounded pool of streams to the leader. [Forwarder.Forward] sends the calls of a [Batch] in one
// write over one of them, reads the replies in order, and sets the [Outcome] of each call: it was answered, it was
// certainly not run, or it may have been run. Forward never retries and never calls back: the caller may retry calls
// that are [Refused]. [Forwarder.Watch] opens a stream for a connection that watches keys.
//
// [Forwarder.Follow] announces a change of the leader. Idle streams to the former leader are closed immediately, dials
// to it are canceled, and streams in use are closed after Timeouts.FormerLeader: a leader that has transferred leadership
// replies within that time, and an unreachable one never does.
//
// # Between nodes
//
// A stream carries commands and replies in RESP, version 2 or 3, with three additions. The error [NotLeading] means
// that the command was not run because the node does not lead. The error [Goaway] means that the node closes the
// stream, and that commands without a reply were not run. After CLIENT CAPA charged, a node puts [ChargedMark] in front
// of the reply to each limiter command that has charged anything, also within the reply to EXEC. Nodes that do not
// support the capability reply to CLIENT CAPA with an error; every command that writes then counts as charged.
package forward
