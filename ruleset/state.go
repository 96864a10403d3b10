package ruleset

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// State is a copy of the history of a store, for snapshots.
type State struct {
	history history
	older   digests
}

// IsEmpty reports whether the history has no version.
func (s State) IsEmpty() bool { return len(s.history) == 0 }

// State returns a copy of the history. It takes constant time per version, because texts are not copied.
func (s *Store) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{s.history, s.older} // never changed in place
}

// Restore replaces the history. The active set does not change before CompileNewest is called, except that it is empty
// if the history is.
func (s *Store) Restore(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.older, s.prepared = state.history, state.older, nil
	if state.IsEmpty() {
		s.active.Store(&Active{})
		return
	}
	s.signal()
}

// saved is a version in a written state.
type saved struct {
	Version
	Packed int     `json:"packed"`          // size of the compressed text, in bytes; 0 if the text is not stored
	Older  digests `json:"older,omitempty"` // of texts before the history; part of the first version
}

// maxSaved is the maximum size of the versions in a written state, in bytes.
const maxSaved = 16 << 20

// ErrState is wrapped by the errors of ReadState for data that is not a written state.
var ErrState = errors.New("the rules in the snapshot are damaged")

// Write writes the state: the size of the versions as 4 little-endian bytes, the versions as JSON, and the compressed
// texts.
func (s State) Write(w io.Writer) error {
	list := make([]saved, len(s.history))
	for i, r := range s.history {
		list[i] = saved{Version: r.Version, Packed: len(r.packed)}
	}
	if len(list) > 0 {
		list[0].Older = s.older
	}
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(b)))); err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	for _, r := range s.history {
		if _, err := w.Write(r.packed); err != nil {
			return err
		}
	}
	return nil
}

// ReadState reads a state that State.Write has written, and no bytes after it.
func ReadState(r io.Reader) (State, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrState, err)
	}
	b, err := readExactly(r, int(binary.LittleEndian.Uint32(size[:])), maxSaved)
	if err != nil {
		return State{}, err
	}
	var list []saved
	if err := json.Unmarshal(b, &list); err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrState, err)
	}
	state, err := readTexts(r, list)
	if len(list) > 0 && err == nil {
		state.older = list[0].Older
	}
	return state, err
}

// readTexts reads the compressed texts of the versions in list.
func readTexts(r io.Reader, list []saved) (state State, err error) {
	room := maxPacked + MaxText*2 // the newest text is stored even if it exceeds the bound
	for i, v := range list {
		if i > 0 && v.Number != list[i-1].Number+1 || v.Number == 0 {
			return State{}, fmt.Errorf("version %d: %w", v.Number, ErrState)
		}
		rec := record{Version: v.Version}
		if v.Packed != 0 {
			if rec.packed, err = readExactly(r, v.Packed, room); err != nil {
				return State{}, err
			}
			room -= v.Packed
		}
		state.history = append(state.history, rec)
	}
	return state, nil
}

// readExactly reads n bytes, at most limit. Memory is allocated as bytes arrive, because n can be wrong.
func readExactly(r io.Reader, n, limit int) ([]byte, error) {
	if n < 0 || n > limit {
		return nil, fmt.Errorf("a part of %d bytes: %w", n, ErrState)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	if len(b) < n {
		return nil, fmt.Errorf("%w: %w", ErrState, io.ErrUnexpectedEOF)
	}
	return b, nil
}
