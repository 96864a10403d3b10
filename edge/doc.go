// Package edge serves HTTP: check endpoints for gateways, a JSON interface for other programs, and endpoints for health and
// metrics.
//
// [New] returns a [Server]. It decides nothing itself: it converts requests to commands of the server for Redis clients (see
// package decision), so that they are forwarded to the leader, charged and counted as those of other clients.
//
// # Check endpoints
//
// A gateway sends a request for each request of its clients to /check/GATEWAY/DOMAIN. Each gateway has a path of its own,
// because the server must read the original request only from headers that the gateway always overwrites: a client can
// set all others. The table of gateways has these headers. Neither the domain nor the cost can be set by a client.
//
// # Access
//
// The protected mode and the password of the server apply. The password is in the header X-Throttled-Token, which
// gateways must overwrite, or, except on check endpoints, in the header Authorization. A page in a browser cannot use the
// server: requests with the header Origin are refused and, if no password is required, also requests with an unknown Host.
package edge
