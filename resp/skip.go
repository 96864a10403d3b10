package resp

import (
	"bytes"
	"encoding/binary"
)

// Skip skips at most limit commands after the one that Next has returned last, and returns their number. It stops before a
// command that has another name or another number of arguments, that is not completely buffered, or that is not in the
// most frequent form: at most 99 arguments of at most 99 bytes. The arguments that Next has returned stay valid.
//
// It takes less than half of the time of Next, since it compares the first bytes of the commands, and not their arguments.
func (r *Reader) Skip(limit int) (n int) {
	if r.err != nil || r.missing > 0 || len(r.args) == 0 || r.limits.Inline < maxShortHead {
		return 0
	}
	var scratch [64]byte
	head := appendHead(scratch[:0], r.args)
	for ; n < limit; n++ {
		size := shortRest(r.buf[r.start:r.end], head, len(r.args)-1, r.limits.Bulk)
		if size == 0 || size > r.limits.Query {
			break
		}
		r.start += size
	}
	return n
}

// appendHead appends the bytes of a command up to its first argument after the name.
func appendHead(b []byte, args [][]byte) []byte {
	b = appendLine(b, '*', int64(len(args)))
	b = appendLine(b, '$', int64(len(args[0])))
	return append(append(b, args[0]...), "\r\n"...)
}

// shortRest returns the size of the command at the begin of b if it begins with head, and count arguments follow that
// shortHead parses. Otherwise it returns 0.
func shortRest(b, head []byte, count, longest int) int {
	if !bytes.HasPrefix(b, head) {
		return 0
	}
	at := len(head)
	for range count {
		n, from := shortHead(b, at)
		to := from + n
		if from == 0 || b[at] != '$' || n > longest || to+2 > len(b) || binary.LittleEndian.Uint16(b[to:]) != crlf {
			return 0
		}
		at = to + 2
	}
	return at
}
