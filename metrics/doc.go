// Package metrics exports the statistics of a server to Prometheus.
//
// [New] returns the [Metrics] of a server. [Metrics.Handler] answers scrapes: each one reads the statistics that packages
// server, cluster, cluster/transport and ruleset publish, so that nothing is counted twice and nothing is added to the path of
// a request. [Requests] counts the requests of the HTTP and gRPC servers, which report them by
// [Requests.ObserveRequest].
//
// The metrics are defined by the tables in this package, and listed by [Families]. The values of labels are names of
// commands, error codes, domains, limits, nodes, endpoints and fixed words. None of them is a key or an attribute of a request,
// and their number is bounded: see ruleset/counts for limits, and [Requests] for endpoints.
package metrics
