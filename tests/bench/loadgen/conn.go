package loadgen

import "fmt"

// conn is one connection: its socket, its buffers, and the requests in flight.
type conn struct {
	fd       int
	protocol Protocol
	in, out  []byte
	filled   int // in[:filled] is read but not yet parsed
	flights  []flight
	replies  []Reply   // reused by parse
	arrivals []arrival // reused by parse
}

// flight is a request without a reply.
type flight struct {
	request uint32
	at      due
}

const inputSize = 64 << 10

func newConn(fd int, protocol Protocol) *conn {
	return &conn{fd: fd, protocol: protocol, in: make([]byte, inputSize), out: protocol.Open(nil)}
}

// send appends a request to the output. Its latency counts from the given time.
func (c *conn) send(key uint64, at due) {
	var request uint32
	c.out, request = c.protocol.Append(c.out, key)
	c.flights = append(c.flights, flight{request, at})
}

// flush writes the output as far as the socket buffer has space.
func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	n, err := write(c.fd, c.out)
	c.out = c.out[:copy(c.out, c.out[n:])]
	return err
}

func (c *conn) read() error {
	if c.filled == len(c.in) {
		return fmt.Errorf("%w: more than %d bytes", errReply, len(c.in))
	}
	n, err := read(c.fd, c.in[c.filled:])
	c.filled += n
	return err
}

// arrival is the reply to a request, and the time from which its latency counts.
type arrival struct {
	Reply
	at due
}

// parse returns the replies that have been read completely. The result is valid until the next call.
func (c *conn) parse() ([]arrival, error) {
	parsed, out, replies, err := c.protocol.Parse(c.in[:c.filled], c.out, c.replies[:0])
	c.out, c.replies = out, replies
	c.filled = copy(c.in, c.in[parsed:c.filled])
	c.arrivals = c.arrivals[:0]
	for _, reply := range replies {
		at, found := c.remove(reply.Request)
		if !found {
			return nil, fmt.Errorf("%w: no request %d is in flight", errReply, reply.Request)
		}
		c.arrivals = append(c.arrivals, arrival{reply, at})
	}
	return c.arrivals, err
}

// remove removes a request from the flights. Replies are mostly in the order of the requests.
func (c *conn) remove(request uint32) (at due, found bool) {
	for i, f := range c.flights {
		if f.request == request {
			c.flights = append(c.flights[:i], c.flights[i+1:]...)
			return f.at, true
		}
	}
	return 0, false
}
