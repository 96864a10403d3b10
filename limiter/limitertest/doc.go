// Package limitertest supports tests of the algorithms: it holds the rules that every
// decision of every algorithm obeys, and helpers to search for violations.
//
//	Decide   the signature that all algorithms share; Ask makes one decision
//	Decided  a decision with its arguments; Check tests it against the rules
//	Row      a line of a table that Play runs on one key
//	AnyInt   random numbers of any magnitude; Within folds them into a range
//	Steps    the number of random steps of a test; flag -steps
//
// A test of an algorithm draws limits, states and quantities, and checks each decision:
//
//	decide := limitertest.Decide(Decide)
//	decide.Ask(t, l, state, now, quantity).Check()
//
// The rules relate decisions to each other: the remaining units can be charged, and a request
// repeated after RetryAfter is admitted. They therefore do not distinguish one algorithm from
// another. For that purpose, each package has additional rules and its own oracle, which is never
// shared.
//
// A package that imports this one gets the flag -steps, so only tests may import it.
package limitertest
