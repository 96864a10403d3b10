// Package forward sends commands to the leader of a cluster and returns its replies.
//
// A [Forwarder] keeps a bounded pool of streams to the leader. [Forwarder.Forward] sends the calls of a [Batch] in one
// write over one of them, reads the replies in order, and gives each call an [Outcome]: it was answered, it was
// certainly not run, or it may have been run. Forward never retries and never calls back: a caller retries calls that
// are [Refused] for as long as it wants to. [Forwarder.Watch] opens a stream for a connection that watches keys.
//
// A Forwarder follows leadership by [Forwarder.Follow]. When another node leads, idle streams to the former leader are
// closed immediately, dials to it are canceled, and streams in use are closed after Timeouts.Parting: a leader that has
// handed over answers within that time, and one that is cut off never does.
//
// # Between nodes
//
// A stream carries commands and replies in RESP, version 2 or 3, with three additions. [NotLeading] as an error says
// that the command was not run because the node does not lead. [Parting] says that the node closes the stream, and that
// commands without a reply were not run. A node that was asked to by CLIENT CAPA charged puts [ChargedMark] in front of
// the reply to each limiter command that has charged anything, also within the reply to EXEC. Nodes that do not know
// the capability answer it with an error; every command that writes then counts as charged.
package forward
