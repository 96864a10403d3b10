package main

import (
	"bytes"
	"net"
)

// replyCounter counts replies without parsing them: a generator that parses them needs as much time as the server.
type replyCounter struct {
	conn          net.Conn
	buf           [64 << 10]byte
	kept          int   // bytes at the start of buf that may be the first bytes of a mark
	decided, busy int64 // counted and not returned
}

// The first bytes of a decision and of a refusal. They do not occur elsewhere in a reply.
var decidedMark, busyMark = []byte("*5\r\n"), []byte("-BUS")

// next returns the numbers of decisions and refusals that have arrived, at least one and at most the given number.
func (c *replyCounter) next(most int64) (decided, busy int64, err error) {
	for c.decided+c.busy == 0 {
		n, err := c.conn.Read(c.buf[c.kept:])
		if err != nil {
			return 0, 0, err
		}
		text := c.buf[:c.kept+n]
		c.decided, c.busy = int64(bytes.Count(text, decidedMark)), int64(bytes.Count(text, busyMark))
		c.kept = copy(c.buf[:], text[max(0, len(text)-len(decidedMark)+1):])
	}
	decided = min(c.decided, most)
	busy = min(c.busy, most-decided)
	c.decided, c.busy = c.decided-decided, c.busy-busy
	return decided, busy, nil
}
