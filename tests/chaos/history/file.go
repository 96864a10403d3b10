package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// line is the JSON form of a request in a file. Each line repeats the key and its parameters.
type line struct {
	Op
	KeyParams Key `json:"key"`
}

// Write writes requests as lines of JSON.
func Write(w io.Writer, ops []Op) error {
	buffered := bufio.NewWriter(w)
	enc := json.NewEncoder(buffered)
	for i := range ops {
		if err := enc.Encode(line{ops[i], *ops[i].Key}); err != nil {
			return fmt.Errorf("write request %d: %w", i, err)
		}
	}
	return buffered.Flush()
}

// errLine is the error of Read for a request with fields that are out of range. Read adds the
// number of the request.
var errLine = errors.New("invalid request")

// Read reads requests that Write has written. Requests on equal keys share one Key.
func Read(r io.Reader) ([]Op, error) {
	var ops []Op
	keys := map[Key]*Key{}
	for dec := json.NewDecoder(r); ; {
		var l line
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return ops, nil
		} else if err != nil {
			return nil, fmt.Errorf("request %d: %w", len(ops), err)
		}
		if l.bad() {
			return nil, fmt.Errorf("request %d: %w", len(ops), errLine)
		}
		if keys[l.KeyParams] == nil {
			k := l.KeyParams
			keys[l.KeyParams] = &k
		}
		l.Key = keys[l.KeyParams]
		ops = append(ops, l.Op)
	}
}

// bad reports whether the fields of a line are out of range.
func (l *line) bad() bool {
	k := &l.KeyParams
	return k.Form != Rate && k.Form != Bound && k.Form != Window ||
		k.MaxBurst < 0 || k.MaxBurst > 1<<40 || k.Count < 1 || k.Period < 1 ||
		k.Interval() > (1<<62)/k.Limit() || // the time to restore the whole limit exceeds 1<<62 ns
		l.Kind > Delete || l.Outcome > Unknown || l.Call < 0 || l.Return < l.Call ||
		l.Quantity < -1<<40 || l.Quantity > 1<<40
}
