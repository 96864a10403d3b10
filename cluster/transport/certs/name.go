package certs

// zone is the last part of the names in certificates. It distinguishes node certificates
// from host certificates.
const zone = "throttled"

// Name returns the DNS name in the certificate of a node. No two nodes have the same DNS name, since
// the names of nodes and clusters contain no dots (see package topology).
func Name(node, cluster string) string { return node + "." + cluster + "." + zone }
