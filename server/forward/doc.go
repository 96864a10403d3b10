// Package forward sends commands to the leader of a cluster and returns its replies.
//
// A [Forwarder] keeps a bounded pool of streams to the leader. [Forwarder.Forward] sends the calls of a [Batch] in one
// write over one of these streams, reads the replies in order, and sets the [Outcome] of each call. Forward never
// retries a call; the caller may retry the calls that are [Refused]. [Forwarder.Watch] opens a separate stream for a
// client that watches keys.
//
// Calls that need no stream of their own (Batch.Shared) share a few streams. The calls of all callers that arrive while
// a shared stream waits for replies are sent in the next write, so that the leader reads and answers many calls at once. With
// Timeouts.Ahead, further calls are also sent if the replies are late.
// A caller with a Batch.Until returns at that time. The stream then reads the late replies, and drops them.
//
// [Forwarder.SetLeader] sets the leader. When the leader changes, idle streams to the former leader are closed and dials
// to it are canceled immediately. Streams in use are closed after Timeouts.FormerLeader. A leader that has transferred
// leadership replies within that time. An unreachable leader never replies, so a longer wait is useless.
//
// # Between nodes
//
// A stream carries commands and replies in RESP, version 2 or 3, with three additions. The error [NotLeading] means
// that the command was not run because the node is not the leader. The error [Goaway] means that the node is closing
// the stream, and that commands without a reply were not run. After CLIENT CAPA charged, a node puts [ChargedMark] in
// front of the reply to each limiter command that has charged anything, including replies within the reply to EXEC. A
// node that does not support this capability replies to CLIENT CAPA with an error. Forward then assumes that every
// command that writes has charged something.
package forward
