// Package check verifies the history that clients of a rate limiter have recorded. It is
// independent of the servers.
//
//   - [Interval] checks that in no interval more units were granted than the limit plus the
//     units restored in the interval. It accepts histories of any size.
//   - [Window] checks limits that hold in any interval of a given length, such as the limit of a
//     sliding log.
//   - [Replies] compares every reply with the charges acknowledged before the request was sent:
//     the used units in the reply must include all of them.
//   - [Ledger] compares the units in use at the end of a run with the charges, on a key that
//     restores nothing during the run.
//   - [Witness] replays all requests on a key that restores nothing during the run, in the order
//     that the replies imply.
//   - [Linear] searches for an order of all requests on a key that explains each reply. Its
//     precision is one second, as replies contain whole seconds.
//   - [Grants] and [Passage] detect a stopped clock. Grants finds a key that refuses requests for
//     much longer than its limit requires. Passage finds a clock that lost more time than the
//     changes of leaders explain.
//   - [Terms] and [Agreement] check the nodes: one leader per term, and equal final states.
//   - [Pressure] checks that a run was busy enough for a clean result to be meaningful.
//   - [LongestGap], [Silence] and [Percentile] measure the availability of the service.
//
// No check reports a false violation if the clock of the limiter runs no faster than its [Slack]
// allows. This holds for all latencies, and the clock may stop at any time. All checks are pure
// functions: time is part of the history. A request with an unknown outcome may or may not have
// been applied. Such a request can hide a violation from all checks except Linear, but never
// causes a false violation.
package check
