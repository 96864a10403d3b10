// Package certs issues the certificates by which the nodes of a cluster authenticate each other,
// offline and with the standard library.
//
// A [CA] signs a certificate for each node: [NewCA] creates a CA, [LoadCA] loads one that
// was saved, and [CA.Issue] returns a [Pair], a certificate and its key in PEM, which
// [Pair.Save] writes to a directory. The key of the CA allows its holder to create nodes. It is
// needed for nothing else, and is best stored on another machine.
//
// The only DNS name in the certificate of a node is that of [Name], NODE.CLUSTER.throttled. The
// name need not resolve; it identifies the node, not its address.
//
// Keys are ECDSA on P-256. Certificates are valid from an hour before they are issued, since
// the clocks of nodes differ. [Pair.Record] stores their serial numbers, by which certificates
// are revoked.
package certs
