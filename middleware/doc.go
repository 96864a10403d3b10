// Package middleware limits the requests of Go programs with a throttled server: HTTP requests with [HTTP] or
// [Limiter.Handler], gRPC calls with the module middleware/grpclimit, and anything else with [Limiter.Allow] and
// [Limiter.Wait]. The package retry beside it has a transport for HTTP clients of limited servers.
//
// A [Limiter] sends each [Request] to the server through a client of go-redis. The limits are either in the rules of the
// server ([Rules]) or in the program ([PerIP]). In both cases the client address limits each HTTP request: headers that are
// not verified can only add limits.
//
// A check takes at most [Config].Timeout, also if the server is paused or unreachable. Without a decision of the server,
// [Config].OnFailure decides: [Open] admits the request, [Closed] refuses it, and [Local] applies the limits in this
// process. After several failures in a row, a circuit breaker stops the calls for a while, so that requests do not wait for
// a server that is down.
//
// All types are safe for concurrent use after their fields have been set.
package middleware
