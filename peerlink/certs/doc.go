// Package certs makes the certificates by which the nodes of a cluster know each other,
// offline and with the standard library.
//
// A [CA] signs a certificate for each node: [NewCA] makes one, [LoadCA] reads one that
// was saved, and [CA.Issue] gives a [Pair], a certificate and its key in PEM, which
// [Pair.Save] writes to a directory. Who holds the key of the CA can make nodes; it is
// needed for nothing else and best kept away from them.
//
// A certificate of a node is for one thing: its only DNS name is that of [Name],
// NODE.CLUSTER.throttled. The name need not resolve; it says who the node is, not where. So what
// clusters and nodes may be called is said here, for all who name one: see [CheckName].
//
// Keys are ECDSA on P-256. Certificates begin an hour before they are made, since the
// clocks of nodes differ. [Pair.Record] keeps their serial numbers, by which nodes refuse those that are
// revoked.
package certs
