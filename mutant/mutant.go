// Package mutant holds the switches of deliberate bugs. They show that the tests and checkers
// which guard the promises of a cluster would notice if a promise were broken.
//
// In a normal build every switch is the constant false, and the compiler leaves the bugs out.
// In one with the build tag chaos, the environment variable THROTTLED_MUTANT turns one of them
// on. docs/mutants.md lists them and what has caught each.
package mutant

// Bug names a deliberate bug.
type Bug string

// The bugs, each a promise that is broken.
const (
	ReplyBeforeCommit Bug = "reply-before-commit"   // sync mode does not wait
	NoUndo            Bug = "no-undo"               // lost leadership leaves what was not committed
	LostBatch         Bug = "lost-batch"            // every fiftieth generation is left out of its entry
	StaleAnswers      Bug = "stale-answers"         // answers that charge nothing need no lease
	LeapingClock      Bug = "leaping-clock"         // a new leader begins a second ahead
	WallClock         Bug = "wall-clock"            // a leader decides by its wall clock
	LocalExpiry       Bug = "evict-by-local-clock"  // a node drops records by its wall clock
	DirtySnapshot     Bug = "snapshot-without-undo" // snapshots hold what is not committed
	AnyTerm           Bug = "any-term"              // entries that were decided under an older term count
	NoBarrier         Bug = "no-barrier"            // a new leader decides before it has applied all entries
	ForgottenTime     Bug = "forgotten-time"        // snapshots lose the log time
	TimeTwice         Bug = "time-counted-twice"    // a new leader adds the time since the last entry twice
	TimeLate          Bug = "time-after-decision"   // a new leader adds that time after it has decided
	TimeUnseen        Bug = "time-not-seen"         // a node that was down goes by its own wall clock
	OwnHeartbeat      Bug = "own-heartbeat-lease"   // each node goes by its own raft-heartbeat
	UnheardHeartbeat  Bug = "unheard-heartbeat"     // a longer lease does not wait until all voters keep still for longer
	AnyStream         Bug = "any-stream"            // a node of any certificate may forward commands
	SyncIgnored       Bug = "sync-error-ignored"    // what the disk has not stored counts as stored
)
