package history

// Rules is the history of a run in which clients changed the rules, while others sent requests that were decided by them.
// The limits of each set encode a number, its content, that no other set of the run has.
type Rules struct {
	Changes   []Change   `json:"changes"`
	Listed    []Version  `json:"listed"` // versions in the replies to CL.RULES HISTORY; may contain duplicates
	Decisions []Decision `json:"decisions"`
}

// Change is a CL.RULES SET.
type Change struct {
	Content int64   `json:"content"`
	Base    uint64  `json:"base,omitempty"`    // version that the command named as its base; 0 if it named none
	Outcome Outcome `json:"outcome,omitempty"` // Granted: the set is a version; Limited: it is not, and will not be
	Version uint64  `json:"version,omitempty"` // in the reply; 0 unless Granted
	Call    int64   `json:"call"`
	Return  int64   `json:"return"` // Never if Unknown
}

// Version is a version of the rules, as a node listed it.
type Version struct {
	Number  uint64 `json:"number"`
	Content int64  `json:"content"` // NoContent if the set was not proposed in this run
}

// NoContent is the content of a set that was not proposed in a run.
const NoContent = -1

// Decision is a reply to CL.CHECK, or several replies in a row to the commands of one pipeline that show the same version and
// contents. The decisions of a client are in the order in which it sent the requests.
type Decision struct {
	Client  int32  `json:"client"`
	Node    int32  `json:"node"`
	Replies int32  `json:"replies"` // at least 1
	Call    int64  `json:"call"`
	Return  int64  `json:"return"` // time of the first of the replies
	Version uint64 `json:"version"`
	// Contents are the contents that two limits of the set encode. They are equal unless the request was decided by parts
	// of two sets.
	Contents [2]int64 `json:"contents"`
}
