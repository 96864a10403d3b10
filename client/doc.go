// Package client decides requests in the process of a program, with units of limits that a throttled server has leased to it.
//
// A [Client] draws leases for the keys that are in demand, and decides their requests without a round trip. It forwards all
// other requests to the server, those of concurrent goroutines together in one pipeline. All copies of a program share each
// limit: in strict mode, which is the default, they never admit more together than the algorithm of the limit permits.
//
// The connection is a client of go-redis that the caller provides: addresses, users, TLS, Redis Cluster and Sentinel are its
// settings. A [redis.Ring] cannot be used, because it would send the return of a lease to another server than the draw.
//
// # Guarantees
//
//   - A request is admitted in this process only with a unit of a lease that has not ended. The server has charged the unit.
//   - A request is refused in this process only if the server has refused a unit of the same limit, until the time at which
//     the server would admit it, at least for an eighth of a lease, and at most for Options.Hold.
//   - Allow returns within Options.Timeout. If the server has not answered by then, Options.Away decides, the decision is
//     Flagged, and [Stats] counts it. Until the server answers again, such decisions are immediate.
//   - Memory and the number of concurrent pipelines are bounded.
//
// A changed limit, a deleted key and a refund take effect within Options.Hold.
//
// All types are safe for concurrent use. The caller must call [Client.Close], which returns the units that are not used; units
// of a process that is killed are restored as the limit defines, when their leases have ended.
//
// [redis.Ring]: https://pkg.go.dev/github.com/redis/go-redis/v9#Ring
package client
