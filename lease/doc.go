// Package lease implements leases of limits: units that are charged to a key in advance, so that their owner, the lessee,
// can spend them later without a further request.
//
// A key with leases has a record of a kind with leases (see limiter.Kind.WithLeases). Its state is the state of the key
// without leases, called the inner state, together with the list of the leases. The functions of this package map such a
// state, a time and a request to a change and a decision, like the algorithms do: they are pure, and read no clock.
//
//   - [Draw] grants a lease, and [Return] credits unused units of a lease.
//   - [Plain] decides a request without a Draw on a key with leases, and [Reset] deletes such a key.
//   - [All], [Until] and [Inner] read a state.
//
// # Guarantee
//
// The units that are spent directly, together with those that are spent by leases, obey the rule of the algorithm in each
// interval, no matter when within its lease a unit is spent. docs/leases.md contains the proof. It is based on these rules:
//
//   - A lease is charged as of the latest time at which its units may be spent, and admitted as of now. The field asOf of
//     a lease is the time as of which it is charged.
//   - A window, a sub-window or a refill interval counts the units spent in it. A lease of such a kind therefore ends with
//     the one in which it is charged.
//   - A log has an entry with the time of the end of the lease, and no entry is removed before its period has passed since.
//   - Operations that restore units (a return, a refund, the deletion of the key, a changed limit) leave the units of all
//     outstanding leases charged as of their asOf. For a key whose state is a time, this is the floor of the list.
//
// A relaxed lease is charged as of the time of the draw. If the rate of a ScaledThrottle changes, this time moves, so that the
// units restored since remain the same.
//
// # Kinds
//
// Limits of the kinds LeakyBucket, ScaledLeaky and Ban have no leases. Nothing is granted either if a lease would be shorter
// than limiter.MinHold: at the end of a window, and for limits whose full amount is restored within eight times this
// duration.
package lease
