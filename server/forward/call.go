package forward

import (
	"time"

	"github.com/throttledhq/throttled/resp"
)

// What a node sends to another beside replies to clients: errors, and a mark in front of replies.
const (
	NotLeading = "NOTLEADING this node does not lead its cluster: nothing was charged"
	Parting    = "PARTING this node ends the stream: what is not answered was not charged"

	// ChargedMark is an empty attribute of RESP3.
	ChargedMark = "|0\r\n"
	// ChargedCapability is the name by which CLIENT CAPA asks for marks.
	ChargedCapability = "charged"
)

const (
	notLeadingLine = "-" + NotLeading + "\r\n"
	partingLine    = "-" + Parting + "\r\n"
)

// Outcome is the outcome of a Call.
type Outcome uint8

const (
	Refused   Outcome = iota // not run, or without effect: it can be sent again
	Answered                 // Reply is set
	Uncertain                // it may have been run, and it writes
)

// Call is a command or a transaction for the leader, and what has become of it. The bytes of Args, Block and Reply are
// borrowed.
type Call struct {
	Args   [][]byte      // the command
	Block  [][][]byte    // the commands of a transaction, which MULTI and EXEC enclose; nil for a single command
	Writes bool          // whether it matters if it is run twice
	Wait   time.Duration // how long the command itself waits, in addition to Timeouts.Reply
	// ChangesLeader suspends the closing of the stream to a former leader: the reply is still to come. No call may be
	// behind such a call in a Batch.
	ChangesLeader bool

	Outcome  Outcome
	Reply    []byte   // without marks; for a transaction the reply to EXEC if that is not an array
	Elements [][]byte // of the array that EXEC returns, without marks, one for each command of Block; nil for another reply
	Charged  bool     // a limiter command has charged something, or that is unknown
}

// replies returns the number of replies to a call.
func (c *Call) replies() int {
	if c.Block == nil {
		return 1
	}
	return len(c.Block) + len("ME") // MULTI and EXEC
}

func (c *Call) encode(out *resp.Reply) {
	if c.Block == nil {
		encodeCommand(out, c.Args)
		return
	}
	encodeCommand(out, multi)
	for _, args := range c.Block {
		encodeCommand(out, args)
	}
	encodeCommand(out, exec)
}

var multi, exec = [][]byte{[]byte("MULTI")}, [][]byte{[]byte("EXEC")}

func encodeCommand(out *resp.Reply, args [][]byte) {
	out.Array(len(args))
	for _, arg := range args {
		out.Bulk(arg)
	}
}

// answer sets the outcome by the last reply to the call. marks reports whether the leader marks charges.
func (c *Call) answer(reply []byte, marks bool) {
	c.Outcome = Answered
	var marked bool
	marked, c.Reply = cutMark(reply)
	c.Charged = marked || !marks && c.Writes
	if c.Block == nil {
		return
	}
	elements, ok := splitArray(c.Reply)
	if !ok || len(elements) != len(c.Block) {
		return
	}
	for i, e := range elements {
		marked, elements[i] = cutMark(e)
		c.Charged = c.Charged || marked
	}
	c.Elements = elements
}

func cutMark(reply []byte) (marked bool, rest []byte) {
	if len(reply) > len(ChargedMark) && string(reply[:len(ChargedMark)]) == ChargedMark {
		return true, reply[len(ChargedMark):]
	}
	return false, reply
}

// Batch is the calls of one Forward, and the room for their replies. The zero value is empty; a Batch is used again
// after Reset.
type Batch struct {
	Calls []Call

	replies []byte
}

// What an empty Batch keeps room for.
const (
	keepCalls   = 16
	keepReplies = 16 << 10 // bytes
)

// Reset forgets the calls and their replies.
func (b *Batch) Reset() {
	clear(b.Calls)
	b.Calls, b.replies = b.Calls[:0], b.replies[:0]
	if cap(b.Calls) > keepCalls {
		b.Calls = nil
	}
	if cap(b.replies) > keepReplies {
		b.replies = nil
	}
}
