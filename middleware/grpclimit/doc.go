// Package grpclimit limits the calls of gRPC servers with a throttled server. It has interceptors for grpc-go that use a
// [middleware.Limiter]. It is a module of its own, so that programs without gRPC do not depend on grpc-go.
//
// A refused call fails with the code ResourceExhausted, or with Unavailable if the policy Closed refuses it because the
// server has not decided. If a retry can help, the status has a RetryInfo detail, and the trailer grpc-retry-pushback-ms
// makes clients with a retry policy wait for the same time.
package grpclimit
