// Command plots draws what each algorithm makes of the same traffic, and measures how far the
// sliding window is from the exact one.
//
//	go run ./scripts/plots             draws docs/plots/*.svg and prints the measurement
//	go run ./scripts/plots -accuracy   only prints the measurement
//
// # The plots
//
// Each algorithm gets the requests of [demoTraffic] and a limit of 10 in 10 seconds, or what
// comes closest to that in its terms. They are decided by a [buckets.Table] whose clock is the
// time of the traffic, so the plots show the program and not a model of it. Bars count the
// requests of half a second; the line counts what was admitted in the ten seconds before
// each moment, which a strict limit keeps at or below 10; the rows under the axis have a tick
// for each request. The requests that CL.LEAKY admits wait for their turn: their line counts
// by the moment at which they go on.
//
// # The measurement
//
// SLIDING and LOG get the same requests, on a key each, and are compared answer by answer:
//
//	load       requests that come in a period, as a multiple of the limit
//	differ     share of the requests that one admitted and the other refused
//	too many   those of them that SLIDING admitted
//	too few    those of them that SLIDING refused
//	admitted   all that SLIDING admitted, of all that LOG admitted
//	largest    most that SLIDING admitted in any span of one period, as a multiple of the limit
//
// Answers differ for two reasons: SLIDING estimates what LOG knows, and each goes by what it
// has itself admitted before. Under overload both admit as many, but not the same ones, so
// that differ says little there; admitted and largest are what to judge by.
//
// Nothing depends on the time of day or on chance: each run prints and draws the same.
package main
