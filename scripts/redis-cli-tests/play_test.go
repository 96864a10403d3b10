package rediscli

import (
	"errors"
	"maps"
	"net"
	"testing"
	"time"
)

// place is a server that sections run against.
type place struct {
	addr    string
	redis   bool                     // a real Redis
	named   map[string]string        // addresses of its other ports, by the names of connections
	vars    variables                // initial variables
	advance func(wait time.Duration) // advances its clock; nil if it cannot be controlled
}

// at returns the address of a named connection.
func (where place) at(name string) string {
	if addr, known := where.named[name]; known {
		return addr
	}
	return where.addr
}

// known returns the initial variables of a section.
func (where place) known() variables {
	vars := variables{}
	maps.Copy(vars, where.vars)
	return vars
}

// player runs one section.
type player struct {
	place
	resp3 bool
	conns map[string]*wire
	last  *wire // the connection of the latest command
	vars  variables
}

// newPlayer returns a player whose connections are closed at the end of the test.
func newPlayer(t testing.TB, sec *section, where place) *player {
	p := &player{place: where, resp3: sec.resp3, conns: map[string]*wire{}, vars: where.known()}
	t.Cleanup(func() {
		for _, w := range p.conns {
			_ = w.conn.Close()
		}
	})
	return p
}

// play runs a section, reports every unexpected reply, and returns the bytes of all replies.
func play(t testing.TB, sec *section, where place) (replies map[*step][]byte) {
	p := newPlayer(t, sec, where)
	replies = map[*step][]byte{}
	for _, st := range sec.steps {
		if !st.isReply() {
			if err := p.do(st); err != nil {
				t.Fatalf("%v: run the step: %v", st, err)
			}
			continue
		}
		got, raw, err := p.read(st, patience)
		if err != nil {
			t.Fatalf("%v: read the reply: %v", st, err)
		}
		if want := st.forRedis(p.redis); !p.vars.match(want, got) {
			t.Errorf("%s:%d:\n got %s\nwant %s", st.file, st.line, got, p.vars.fill(want))
		}
		replies[st] = raw
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
	return replies
}

// do executes a step that is not a reply. Consecutive commands on one connection are sent as one
// pipeline.
func (p *player) do(st *step) error {
	if p.last != nil && (st.kind == clock || p.last != p.conns[st.conn]) {
		if err := p.last.flush(); err != nil {
			return err
		}
	}
	if st.kind == clock {
		p.advance(st.wait)
		return nil
	}
	w, err := p.conn(st.conn)
	if err != nil {
		return err
	}
	p.last = w
	line := p.vars.fill(st.forRedis(p.redis))
	if st.kind == raw {
		return w.sendRaw(line)
	}
	return w.send(line)
}

func (p *player) read(st *step, within time.Duration) (text string, raw []byte, err error) {
	w, err := p.conn(st.conn)
	if err == nil && p.last != nil {
		err = p.last.flush()
	}
	if err != nil {
		return "", nil, err
	}
	return w.reply(within)
}

// conn returns the connection with the given name. It opens the connection at the first
// call for the name.
func (p *player) conn(name string) (*wire, error) {
	if w := p.conns[name]; w != nil {
		return w, nil
	}
	w, err := dial(p.at(name))
	if err != nil {
		return nil, err
	}
	p.conns[name] = w
	if p.resp3 {
		_, err = w.ask("HELLO 3")
	}
	return w, err
}

// end closes the write side of the connections and reports unexpected replies.
func (p *player) end() error {
	for name, w := range p.conns {
		if err := w.flush(); err != nil {
			return err
		}
		if tcp, ok := w.conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite() // it fails if the server has closed the connection, which is permitted
		}
		text, _, err := w.reply(patience)
		if err != nil || text != closed {
			return errors.Join(err, errors.New("connection "+name+": unexpected reply: "+text))
		}
	}
	return nil
}
