// Package transport implements the port through which the nodes of a cluster communicate.
//
// [Listen] opens a [Link]. A Link accepts streams from other nodes, and [Link.Dial] opens streams to
// them. Each stream has a [Purpose], and [Link.Streams] returns the accepted streams of a purpose.
// [Link.Raft] is the stream layer for hashicorp/raft, and [RaftTransport] sends and receives the
// messages of Raft over this layer.
//
// Raft accepts the messages of every peer that can connect: one forged message can stop a cluster
// permanently, and each idle connection to Raft uses 270 KB of memory. This package therefore opens
// no stream, and passes no data to Raft, until all of the following hold:
//   - TLS 1.3 has verified, in both directions, a certificate signed by the cluster's CA,
//     with the DNS name NODE.CLUSTER.throttled (the address of the peer is ignored);
//   - a greeting of at most 190 bytes has named the cluster, the sending node, the intended
//     node and the purpose, and all of these are correct;
//   - both nodes belong to the same recovery of the cluster, see [Link.SetRecovery];
//   - for the purposes Raft and Client, this node allows the peer, see [Link.SetAllowed], and
//     neither node has a record of newer data of the other node, see [Link.SetCurrent];
//   - the certificate is not listed in the file Config.RevokedFile;
//   - for the purpose Raft, a [Guard] has accepted the message: see [RaftTransport].
//
// All of these checks except the last must finish within Config.HandshakeTimeout. The number of
// pending connections is bounded: if there are too many, the oldest connection from the address
// with the most pending connections is closed. Peers that are slow on purpose therefore do not keep
// others out. The number of streams is bounded in total and for each node. This package
// sets no deadline for an open stream. If a peer is unreachable, TCP keep-alive closes the
// connection after half a minute.
//
// The certificate files are read again when they change. Open streams stay open then, and also
// when a certificate expires.
//
// Without certificates (Config.Insecure) the name of a peer is not verified. This is
// allowed only if all addresses are loopback, since only processes on the same machine can then
// connect, and such a process has other ways to do damage.
//
// When the list of revoked certificates changes, the list is read again after it has been
// unchanged for a second. Open streams with a revoked certificate are then closed. If the list
// cannot be read, the last valid list stays in force.
//
// Requests on Control and Client streams must be authorized by the packages that serve them.
package transport
