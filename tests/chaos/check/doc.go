// Package check verifies the history that clients of a rate limiter have recorded. It shares no
// code with the servers.
//
//   - [Interval] checks that no interval has more granted units than the limit plus the units
//     restored in the interval. It accepts histories of any size.
//   - [Window] checks limits that hold in any interval of a given length, such as the limit of a
//     sliding log.
//   - [Replies] compares every reply with the charges acknowledged before the request was sent: the
//     reply must not report less usage than these charges imply.
//   - [Ledger] compares the units in use at the end of a run with the charges, on a key that
//     restores nothing during the run.
//   - [Witness] replays all requests on a key that restores nothing during the run, in the order
//     of the used units that the replies report.
//   - [Units] is Witness without its check of the log time.
//   - [Versions] checks that each decision by the rules is explained by one version of the rules, and
//     that versions never decrease.
//   - [Linear] searches for an order of the requests on a key in which each reply is correct. Its
//     precision is one second, as replies contain whole seconds.
//   - [Grants] and [Passage] detect a stopped clock. Grants finds a key that refuses requests for
//     much longer than its limit requires. Passage finds a clock that lost more time than it may
//     lose at changes of leaders and while no request is decided.
//   - [Terms] and [Agreement] check the nodes: one leader per term, and equal final states.
//   - [Pressure] checks that a run was busy enough for a clean result to be meaningful.
//   - [LongestGap], [Silence] and [Percentile] measure the availability of the service.
//
// No check reports a false violation if the clock of the limiter runs no faster than the [Slack] of
// the check allows. This holds for all latencies. Only Grants, Passage and Linear limit the time for
// which the clock may stop. All times are part of the history: no check reads a clock, except for
// the timeout of Linear. A request with an unknown outcome may or may not have been applied. Such a
// request can hide a violation from all checks except Linear, but never causes a false violation.
package check
