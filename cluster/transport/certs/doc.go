// Package certs issues the certificates that the nodes of a cluster use to authenticate
// each other. It works offline and uses only the standard library.
//
// A [CA] signs a certificate for each node. [NewCA] creates a CA, and [LoadCA] loads a
// saved one. [CA.Issue] returns a [Pair], a certificate and its key in PEM, which
// [Pair.Save] writes to a directory. The holder of the key of the CA can issue a certificate for any
// node. The key has no other use, and is best stored on a machine that runs no node.
//
// The certificate of a node has one DNS name, NODE.CLUSTER.throttled, as returned by
// [Name]. The name need not resolve; it identifies the node, not its address.
//
// Keys are ECDSA on P-256. The validity of a certificate begins an hour before it is
// issued, since the clocks of nodes differ. [Pair.Record] stores the serial numbers of
// certificates, which are needed to revoke them.
package certs
