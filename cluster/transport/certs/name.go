package certs

// zone is the last part of the names in certificates. It distinguishes node certificates
// from host certificates.
const zone = "throttled"

// Name returns the DNS name in the certificate of a node. It is unique, since neither part
// contains a dot (see package topology).
func Name(node, cluster string) string { return node + "." + cluster + "." + zone }
