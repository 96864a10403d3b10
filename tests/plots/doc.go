// Command plots draws the decisions of each algorithm on the same traffic and the architecture of
// the server, and measures the accuracy of the sliding window compared with the exact window.
//
//	go run -C tests/plots .             draws docs/plots/*.svg and prints the measurement
//	go run -C tests/plots . -accuracy   only prints the measurement
//
// # The plots
//
// Each algorithm gets the requests of [demoTraffic] and a limit of 10 in 10 seconds, or
// the closest equivalent in its parameters. The requests are decided by a [buckets.Table]
// whose clock is the time of the traffic, so the plots show the actual program and not a
// model of it. Each bar counts the requests in half a second. The line counts the requests
// admitted in the preceding ten seconds, which a strict limit keeps at or below 10. The
// rows under the axis have a tick for each request. Requests that CL.LEAKY admits are
// delayed, and the line counts them at the time when they proceed.
//
// # The architecture
//
// The diagram is a table of blocks and arrows at fixed places. The tests check that its texts fit,
// and that the documents show it.
//
// # The measurement
//
// SLIDING and LOG get the same requests, each on its own key, and their decisions are compared:
//
//	load       requests in a period, as a multiple of the limit
//	differ     share of the requests that one algorithm admitted and the other refused
//	too many   share of the requests that SLIDING admitted and LOG refused
//	too few    share of the requests that SLIDING refused and LOG admitted
//	admitted   number that SLIDING admitted, divided by the number that LOG admitted
//	largest    largest number that SLIDING admitted in any span of one period, as a multiple of the limit
//
// Decisions differ for two reasons. SLIDING estimates the usage that LOG records exactly,
// and the decisions of each algorithm depend on the requests that it has admitted before.
// Under overload, both algorithms admit the same number of requests, but not the same
// requests. In this case the columns admitted and largest are meaningful, and the column
// differ is not.
//
// The results do not depend on the time of day or on random seeds: every run has the same
// output.
package main
