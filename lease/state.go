package lease

import (
	"encoding/binary"
	"iter"
	"math"
	"time"

	"github.com/throttledhq/throttled/limiter"
)

// footerSize is the size of the end of the Data of a state with leases. The Data is, with numbers in little endian:
//
//	leases   see list.appendTo
//	inner    the Data of the inner state
//	8 bytes  the Expires of the inner state
//	8 bytes  the time at which the last lease ends
//	4 bytes  the size of the leases
//
// The Expires of the state is the later of the two times. A plain request that ends no lease changes only the bytes from
// inner on.
const footerSize = 8 + 8 + 4

// split separates the Data of a state into the encoded leases and the inner state. The inner state of malformed Data is
// absent, and there are no leases.
func split(s limiter.State) (leases []byte, inner limiter.State) {
	size := len(s.Data) - footerSize
	if size < 0 {
		return nil, limiter.State{}
	}
	footer := s.Data[size:]
	n := binary.LittleEndian.Uint32(footer[16:])
	if uint64(n) > uint64(size) {
		return nil, limiter.State{}
	}
	return s.Data[:n], limiter.State{Expires: binary.LittleEndian.Uint64(footer), Data: s.Data[n:size:size]}
}

func appendFooter(b []byte, expires, until uint64, leases int) []byte {
	b = binary.LittleEndian.AppendUint64(b, expires)
	b = binary.LittleEndian.AppendUint64(b, until)
	return binary.LittleEndian.AppendUint32(b, uint32(leases))
}

// Inner returns the state of a key without its leases. A caller that passes the inner state to an algorithm must check
// that it has not expired: the state itself may expire later.
func Inner(s limiter.State) limiter.State {
	_, inner := split(s)
	return inner
}

// Until returns the time at which the last lease in the Data of a state ends, or 0 if the Data is malformed.
func Until(data []byte) uint64 {
	if len(data) < footerSize {
		return 0
	}
	return binary.LittleEndian.Uint64(data[len(data)-12:])
}

// All iterates over the leases in a state that have not ended at time now. The Key and the Kind of the leases are not set.
func All(s limiter.State, now uint64) iter.Seq[limiter.Lease] {
	return func(yield func(limiter.Lease) bool) {
		encoded, _ := split(s)
		l, _ := parse(encoded, nil)
		for i := range l {
			e := &l[i]
			if e.end <= now {
				continue
			}
			if !yield(limiter.Lease{ID: e.id, User: string(e.user), Lessee: string(e.lessee), Units: int64(min(e.units, math.MaxInt64)),
				Left: time.Duration(min(e.end-now, math.MaxInt64)), Relaxed: e.relaxed()}) {
				return
			}
		}
	}
}

// Buffer is memory for one decision. It can be used again after the call, and then refers to no other memory. A buffer on
// the stack of a function that calls an Algorithm would be moved to the heap, as part of the state whose other part is an
// argument of the call.
type Buffer struct {
	leases [MaxLeases]lease
	limit  limiter.Limit
}

// release removes the names in the list, which are parts of the decoded state: otherwise the buffer would retain its memory.
func (b *Buffer) release() {
	for i := 0; i < len(b.leases) && b.leases[i].lessee != nil; i++ {
		b.leases[i] = lease{}
	}
}

// state is a decoded state: the inner state of a key, and its outstanding leases.
type state struct {
	inner  limiter.State
	leases list
	buf    *Buffer

	pruned  bool // the stored state is malformed, or has leases that are not in the list because they have ended
	adapted bool // the method adapt has changed the state
	rate    rate // the rate of the limit passed to adapt, compared with the rate in the stored state
}

// open decodes the state of a record of the given kind, for a time at which it has not expired. The list is stored in buf.
func open(kind limiter.Kind, s limiter.State, now uint64, buf *Buffer) (st state) {
	st.buf = buf
	if !kind.Leased() {
		st.inner, st.leases = s, buf.leases[:0]
		return st
	}
	encoded, inner := split(s)
	l, _ := parse(encoded, buf.leases[:0])
	for i := range l {
		if !wellFormed(kind.Base(), &l[i].limit) {
			l = nil
			break
		}
	}
	n := len(l)
	st.leases = l.prune(now)
	st.pruned = n == 0 || len(st.leases) < n
	if inner.Expires > now {
		st.inner = inner
	}
	return st
}

// change returns the change that stores st as the state of a key with the given base kind, and the kind of the record.
func (st *state) change(base limiter.Kind, room []byte) (limiter.Change, limiter.Kind) {
	c := limiter.Change{Set: true, Expires: st.inner.Expires}
	if len(st.leases) == 0 {
		c.Tail = append(room[:0], st.inner.Data...)
		return c, base
	}
	until := st.leases.until()
	c.Expires = max(c.Expires, until)
	c.Tail = st.leases.appendTo(room[:0])
	n := len(c.Tail)
	c.Tail = appendFooter(append(c.Tail, st.inner.Data...), st.inner.Expires, until, n)
	return c, base.WithLeases()
}
