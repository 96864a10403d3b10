// Package check verifies the history that clients of a rate limiter have recorded. It is
// independent of the servers.
//
//   - [Interval] compares the granted units with the limit: in any interval at most the limit
//     and the units restored in the interval. It accepts histories of any size.
//   - [Window] does the same for limits that hold in any interval of a given length: the sliding log.
//   - [Replies] compares every reply with the charges acknowledged before the request was sent:
//     the used units in the reply must include all of them.
//   - [Ledger] counts the units charged at the end, on a key that restores nothing during a run.
//   - [Witness] replays all requests on such a key in the order that the replies imply.
//   - [Linear] searches for an order of all requests on a key that explains each reply, to the
//     precision of replies: a second.
//   - [Grants] and [Passage] detect a stopped clock: a key that refuses for much longer than its
//     limit requires, and a clock that loses more time than changes of leaders may cost.
//   - [Terms] and [Agreement] check the nodes: one leader per term, and equal final states.
//   - [Pressure] checks that a run was busy enough for a clean result to be meaningful.
//   - [LongestGap], [Silence] and [Percentile] measure the availability of the service.
//
// No check reports a false violation, whatever the latencies, as long as the clock of the
// limiter runs no faster than its [Slack] allows. The clock may stop at any time. All
// checks are pure functions: time is part of the history. A request with an unknown
// outcome may or may not have been applied. Such a request can hide a violation from all
// checks except Linear, but never causes a false violation.
package check
