// Package grpcedge serves the gRPC interfaces of Envoy: the rate limit service (RLS,
// envoy.service.ratelimit.v3.RateLimitService), external authorization (envoy.service.auth.v3.Authorization) and health
// (grpc.health.v1.Health).
//
// [New] returns a [Server]. It decides nothing itself: each descriptor of an RLS request is one CL.CHECK, and so is each
// authorization request. The limit of a descriptor (an override) is a fixed window, decided by CL.WINDOW.
//
// An RLS request is answered as envoyproxy/ratelimit does. All descriptors are charged, each on its own, unless another
// descriptor replaces its limit. The request is refused if a limit without quota mode refuses its descriptor, or if all
// limits with quota mode refuse theirs. docs/grpc.md lists the differences.
//
// A request that cannot be decided is an error with the code UNAVAILABLE, so that failure_mode_deny of Envoy determines
// the result. The limits of the rules have on_failure, which takes precedence.
//
// The password of the server is in the metadata of a call: "authorization: Bearer PASSWORD". It is checked before the
// message is received.
package grpcedge
