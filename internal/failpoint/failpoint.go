// Package failpoint contains the switches of deliberate bugs. The bugs are used to verify that the tests and
// checkers detect a cluster that breaks one of its guarantees.
//
// In a normal build every switch is the constant false, and the compiler removes the bugs.
// In a build with the tag chaos, the environment variable THROTTLED_MUTANT enables one of
// them; a process with another value exits. docs/mutants.md lists each bug with the checks that detect it.
package failpoint

// Bug names a deliberate bug.
type Bug string

// The bugs. Each breaks one guarantee.
const (
	ReplyBeforeCommit Bug = "reply-before-commit"   // sync mode does not wait for the commit
	NoUndo            Bug = "no-undo"               // uncommitted changes stay after a loss of leadership
	LostBatch         Bug = "lost-batch"            // the entry for every 50th generation has no changes
	StaleAnswers      Bug = "stale-answers"         // requests that charge nothing are answered without a lease
	LeapingClock      Bug = "leaping-clock"         // log time jumps forward by a second when a node becomes the leader
	WallClock         Bug = "wall-clock"            // a leader decides by its wall clock
	LocalExpiry       Bug = "evict-by-local-clock"  // a node that applies an entry expires records by its wall clock
	DirtySnapshot     Bug = "snapshot-without-undo" // snapshots contain uncommitted changes
	AnyTerm           Bug = "any-term"              // an entry decided in one term and appended in a later one is applied
	NoBarrier         Bug = "no-barrier"            // a new leader decides before it has applied all entries
	ForgottenTime     Bug = "forgotten-time"        // snapshots lose the log time
	TimeTwice         Bug = "time-counted-twice"    // a new leader adds the time since the last entry twice
	TimeLate          Bug = "time-after-decision"   // a new leader adds the time since the last entry half a second late
	TimeUnseen        Bug = "time-not-seen"         // a restarted node computes log time from its own wall clock
	OwnHeartbeat      Bug = "own-heartbeat-lease"   // each node uses its own raft-heartbeat
	UnheardHeartbeat  Bug = "unheard-heartbeat"     // a longer lease is used before all voters use the longer timeout
	AnyStream         Bug = "any-stream"            // a node with any certificate may forward commands
	SyncIgnored       Bug = "sync-error-ignored"    // data counts as stored after a failed sync
	StaleRules        Bug = "stale-rules"           // a new leader decides before it has compiled the newest rules

	LeaseAsOfNow      Bug = "lease-as-of-now"       // a strict lease is charged as of the time of its draw
	LeaseBeyondEnd    Bug = "lease-beyond-end"      // a lease is charged as of a time after its end
	LeaseReducedBurst Bug = "lease-reduced-burst"   // as LeaseAsOfNow, with a limit reduced by the length of the lease
	LeaseOutlives     Bug = "lease-outlives-charge" // the units of a lease can be spent after the time as of which they are charged
	LeaseCreditTwice  Bug = "lease-credited-twice"  // returned units can be returned again
	LeaseLateReturn   Bug = "lease-late-return"     // units are credited after the end of their lease
	LeaseReturnFloor  Bug = "lease-return-floor"    // a return ignores the other leases
	LeaseRefundFloor  Bug = "lease-refund-floor"    // a refund ignores the leases
	LeaseOldRate      Bug = "lease-old-rate"        // a relaxed lease is not converted to a changed rate
	LeaseDeleted      Bug = "lease-after-delete"    // the deletion of a key restores the units of its leases

	LesseeGroup Bug = "lessee-group-first" // a lessee charges only the first limit of a group
)
