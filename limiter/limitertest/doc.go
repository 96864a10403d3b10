// Package limitertest supports tests of the algorithms: it holds the rules that every
// decision of every algorithm obeys, and helpers to search for violations.
//
//	Decide   the signature that all algorithms share; Run makes one decision
//	Decided  a decision with its arguments; Check tests it against the rules
//	Row      a line of a table that Play runs on one key
//	AnyInt   random numbers of any magnitude; Within maps them to a range
//	Steps    the number of random steps of a test; set by the flag -steps
//
// A test of an algorithm generates random limits, states and quantities, and checks each decision:
//
//	decide := limitertest.Decide(Decide)
//	decide.Run(t, l, state, now, quantity).Check()
//
// The rules relate decisions to each other. For example, the remaining units can be charged, and a request that is
// repeated after RetryAfter is admitted. All algorithms obey these rules, so the rules do not detect that a package
// implements the wrong algorithm. For this purpose, each package has additional rules and an oracle of its own: a slow,
// obviously correct implementation of its algorithm.
//
// Importing this package registers the flag -steps, so only tests may import it.
package limitertest
