// Package transport implements the port through which the nodes of a cluster communicate.
//
// [Listen] opens a [Link]. It accepts streams, and opens them with [Link.Dial]. Each stream has
// a [Purpose], and [Link.Streams] returns the accepted streams of a purpose. [Link.Raft] is
// the stream layer for hashicorp/raft, and [RaftTransport] sends and receives its messages over it.
//
// Raft trusts every peer that can connect: one forged message stops a cluster permanently, and
// an idle connection costs it 270 KB. Therefore this package guarantees that no stream is
// opened, and that no byte is read as Raft, before
//   - TLS 1.3 has verified, in both directions, a certificate that the cluster's CA signed,
//     with the DNS name NODE.CLUSTER.throttled, for any address of the peer;
//   - a greeting of at most 190 bytes has named the cluster, the sending node, the intended
//     node and the purpose, and all of these are correct;
//   - both nodes belong to the same recovery of the cluster, see [Link.SetRecovery], and neither has evidence that the data of
//     the other is out of date, see [Link.SetCurrent];
//   - for Raft and Client, the node is allowed, see [Link.SetAllowed];
//   - the certificate is not listed in the file Config.RevokedFile;
//   - for Raft, a [Guard] has accepted the message: see [RaftTransport].
//
// All of these steps must finish within Config.HandshakeTimeout. The number of pending
// connections is bounded: if there are too many, the oldest from the address with the most is
// dropped, so that peers that are slow on purpose do not keep others out. The number of streams
// is bounded in total and for each node. An opened stream has no deadline; a silent peer is
// probed, and the connection is closed after half a minute.
//
// The certificate files are read again when they change; open streams stay open. A
// certificate that expires while a stream is open does not close it.
//
// Without certificates (Config.Insecure) the name of a peer is not verified. That is refused
// unless all addresses are loopback, where a process that can connect can do worse.
//
// The list of revoked certificates is read again once it has not changed for a second, and their open streams are
// closed. If it cannot be read, the last valid list stays in force.
//
// Requests on Control and Client streams must be authorized by the packages that serve them.
package transport
