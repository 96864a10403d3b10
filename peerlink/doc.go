// Package peerlink is the one port on which the nodes of a cluster talk to each other.
//
// [Listen] opens a [Link]. It accepts streams and opens them with [Link.Dial]; each has a
// [Purpose], and [Link.Streams] gives those that were accepted for one. [Link.Raft] is
// what hashicorp/raft takes as its stream layer, and [Transport] what it sends and hears over that.
//
// Raft trusts whoever reaches it: one forged message stops a cluster for good, and a
// connection that says nothing costs it 270 KB. So what this package guarantees is that
// nobody gets a stream, and that no byte is read as Raft, before
//   - TLS 1.3 has shown, in both directions, a certificate that the cluster's CA signed,
//     with the DNS name NODE.CLUSTER.throttled, whatever address the peer has;
//   - a greeting of at most 190 bytes has named the cluster, the node that speaks, the
//     node that is meant and the purpose, and all of that is as it should be;
//   - both nodes belong to the same recovery of the cluster, see [Link.SetRecovery], and neither knows the data of
//     the other to be out of date, see [Link.SetCurrent];
//   - for Raft and Client, the node is allowed to, which [Link.SetAllowed] says;
//   - the certificate is not revoked, which the file Config.RevokedFile says;
//   - for Raft, a [Guard] has judged the message: see [Transport].
//
// All of it has to happen within Config.HandshakeTimeout. Connections that are not that
// far are bounded in number: when there are too many, the oldest from the address that
// has most of them makes room, so that peers that are slow on purpose keep nobody out.
// Streams are bounded in all and for each node. A stream has no deadline left when it is
// handed out; a peer that is silent is probed, and given up after half a minute.
//
// The certificate files are read again when they change; streams that are open stay. A
// certificate that expires while a stream is open does not end it.
//
// Without certificates (Config.Insecure) a peer is who it says it is. That is refused
// unless all addresses are loopback, where who can connect can do worse.
//
// The list of revoked certificates is read again once it has not changed for a second, and their open streams are
// closed. While it cannot be read, the last one that could be stays in force.
//
// What a peer may ask for on Control and Client streams is for those to judge that serve them.
package peerlink
