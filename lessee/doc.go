// Package lessee decides requests locally, with units that the authority of a limit has leased in advance.
//
// The authority of a limit is the server or cluster that holds its state. A [Ledger] is the state of one lessee: a sidecar,
// or a program that embeds the client package. For each key and limit that is in demand, it holds leases: units that the
// authority has already charged, and that the lessee may spend until the lease ends. [Ledger.Decide] decides a request if it
// can, and otherwise reports that the authority must decide. The caller forwards such a request.
//
// The package performs no I/O and reads no clock: [Ledger.Next] returns the calls that the caller must send to the
// authority (draws of new units, and returns of units that are not needed), and [Ledger.Drawn] takes the answer to a draw.
//
// # Guarantees
//
//   - A request is admitted locally only with units of a lease that has not ended, and each unit is spent at most once.
//     Together with the charge that the authority makes for a lease (see package lease), no interval admits more than the
//     algorithm of the limit would.
//   - A lease ends at the lessee before it ends at the authority: its validity is counted from the instant before the draw
//     was sent, and is shortened by 1/500, the largest difference between the rates of two clocks.
//   - A request is refused locally only if the authority has refused a unit of the same limit, until the time at which the
//     authority would admit it or an eighth of a lease has passed, and for at most the wanted validity of a lease after the
//     draw with this answer was sent. A limit therefore never refuses a request for longer than that because of leases.
//   - Units are drawn for groups only if each of their limits has units in hand, or is in demand and was not refused lately. Otherwise
//     the group is forwarded, and units in hand would only make the authority refuse it.
//   - Memory is bounded: a ledger tracks at most Config.MaxKeys keys of at most 1 KiB. Requests for other keys are forwarded.
//
// # Time
//
// All times are nanoseconds of one clock that counts the time in which the machine is suspended, such as CLOCK_BOOTTIME of
// Linux, which [Now] reads. A clock that stops during suspension would prolong leases.
//
// A Ledger is safe for concurrent use.
package lessee
