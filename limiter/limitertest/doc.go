// Package limitertest supports tests of the arithmetic: it holds the rules that every
// decision of every algorithm obeys, and what is needed to look for one that does not.
//
//	Decide   the signature that algorithms have in common; Ask makes one decision
//	Decided  a decision with what was asked; Check holds it to the rules
//	Row      a line of a table that Play goes through on one key
//	AnyInt   random numbers of any magnitude; Within folds them into a range
//	Steps    how many random steps a test takes; flag -steps
//
// A test of an algorithm draws limits, states and quantities, and checks each decision:
//
//	decide := limitertest.Decide(Decide)
//	decide.Ask(t, l, state, now, quantity).Check()
//
// The rules relate decisions to each other: what is said to remain can be charged, and who
// waits as told is admitted. So they do not tell one algorithm from another. For that each
// package has an oracle of its own, which is never shared, and rules besides.
//
// Whoever imports this package has the flag -steps, so only tests do.
package limitertest
