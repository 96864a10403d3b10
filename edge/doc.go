// Package edge is the HTTP server: check endpoints for gateways, a JSON API for applications, and endpoints for health,
// metrics and the OpenAPI document.
//
// A [Server] converts each request to commands of package decision, which are decided by the server for Redis clients, and
// converts their replies to HTTP responses. Two tables define it: the gateways of the check endpoints, with the headers
// that are read from the requests of each, and the endpoints of the JSON API, with the fields of their bodies. The allowed
// methods, the decoder and the OpenAPI document are derived from the latter.
//
// # Guarantees
//
//   - The domain and the cost of a check request are never taken from a header or a query that a client can send.
//   - Data that a client has chosen never makes a gateway treat a request as undecided: the status is then one that the
//     gateway regards as a refusal.
//   - The size of headers and bodies, the times, and the number of connections are limited.
//   - A panic in a handler closes at most its own connection.
package edge
