// Package check judges what clients have seen of a rate limiter, without knowing anything
// about the servers behind it.
//
//   - [Interval] holds what was granted against the promise itself: in no stretch of time
//     more than the limit and what came back meanwhile. It takes histories of any size.
//   - [Window] does so for limits that hold in any stretch of a length: the sliding log.
//   - [Replies] holds every reply against the charges that had been acknowledged before it
//     was asked for: none may be missing from what it says is in use.
//   - [Ledger] counts, on a key to which nothing comes back during a run, what has been
//     charged in the end.
//   - [Witness] replays all requests on such a key in the order that the replies tell.
//   - [Linear] looks for an order of all requests on a key that explains each reply, to the
//     second in which replies are stated.
//   - [Grants] and [Passage] notice time that stands still: a key that refuses for much longer
//     than its limit says, and a clock that loses more than changes of leaders may take.
//   - [Terms] and [Agreement] look at the nodes: one leader a term, and one state in the end.
//   - [Pressure] says whether so much has happened that finding nothing means anything.
//   - [LongestGap], [Silence] and [Percentile] measure how available the service was.
//
// None of them raises a false alarm, whatever the latencies, as long as the clock of the
// limiter runs no faster than its [Slack] allows. It may stand still at any time. All are
// pure: time is in the history. What a request with an unknown outcome has done is left
// open, so such requests can hide a violation from all but Linear, and never make one up.
package check
