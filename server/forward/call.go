package forward

import (
	"time"

	"github.com/throttledhq/throttled/resp"
)

// Additions to RESP on streams between nodes: two errors, and a mark in front of the reply to a command that has
// charged anything. The package documentation describes them. Nodes compare the whole texts, also those of other versions,
// so the texts must not change.
const (
	NotLeading = "NOTLEADING this node does not lead its cluster: nothing was charged"
	Goaway     = "PARTING this node ends the stream: what is not answered was not charged"

	// ChargedMark is the mark: an empty attribute of RESP3.
	ChargedMark = "|0\r\n"
	// ChargedCapability is the name of the CLIENT CAPA capability that enables marks.
	ChargedCapability = "charged"
)

const (
	notLeadingLine = "-" + NotLeading + "\r\n"
	goawayLine     = "-" + Goaway + "\r\n"
)

// Outcome is the outcome of a Call.
type Outcome uint8

// The outcomes of a Call.
const (
	Refused   Outcome = iota // not run, or without effect: the call can be sent again
	Answered                 // Reply is set
	Uncertain                // the call writes, and may have been run
)

// Call is a command or a transaction for the leader, and its outcome. The caller owns the bytes of Args and Block. The
// bytes of Reply and Elements are valid until the Batch is reset.
type Call struct {
	Args   [][]byte      // the command, if the call is a single command
	Block  [][][]byte    // the commands of a transaction, without MULTI and EXEC; nil for a single command
	Writes bool          // the call may change state, so it must not run twice
	Wait   time.Duration // time for which the command itself may block; added to Timeouts.Reply
	// ChangesLeader marks a command that may change the leader. A stream is normally closed soon after its node has
	// stopped being the leader. While such a command waits for its reply, the stream stays open. The command must be
	// the last in its Batch.
	ChangesLeader bool

	Outcome  Outcome
	Reply    []byte   // reply without its mark; for a transaction, the reply to EXEC
	Elements [][]byte // replies in EXEC's array, without marks, one for each command of Block; nil for any other reply
	Charged  bool     // the call has charged something; if the leader sends no marks, set for every answered call with Writes
}

// replies returns the number of replies that the node sends for a call.
func (c *Call) replies() int {
	if c.Block == nil {
		return 1
	}
	return len(c.Block) + len("ME") // MULTI and EXEC have a reply each
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

// answer sets the outcome of an answered call. reply is the reply to the command, or to EXEC. marks reports whether
// the leader sends marks.
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

// Batch holds the calls that are passed to Forward together, and the buffer for their replies. The zero value is
// empty. A Batch can be reused after Reset.
type Batch struct {
	Calls []Call
	// Shared permits sending the calls over a stream that carries the calls of other callers, too. They must be single
	// commands that do not block, do not change the leader, have short replies, and do not depend on the connection.
	Shared bool
	// Until is the time after which replies are not awaited, postponed by the Wait of each call. Optional; if zero, only
	// Timeouts.Reply bounds the wait for replies.
	Until time.Time

	replies []byte
}

// encode appends the calls in the form in which they are sent.
func (b *Batch) encode(out *resp.Reply) {
	for i := range b.Calls {
		b.Calls[i].encode(out)
	}
}

// Maximum capacities of buffers that Reset keeps.
const (
	keepCalls   = 16
	keepReplies = 16 << 10 // bytes
)

// Reset removes the calls and their replies.
func (b *Batch) Reset() {
	clear(b.Calls)
	b.Calls, b.replies, b.Shared, b.Until = b.Calls[:0], b.replies[:0], false, time.Time{}
	if cap(b.Calls) > keepCalls {
		b.Calls = nil
	}
	if cap(b.replies) > keepReplies {
		b.replies = nil
	}
}
