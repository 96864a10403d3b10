package ruleset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// TestStateIsRestored checks that a store is the same after its state was written and read, and that exactly the bytes
// of the state are read.
func TestStateIsRestored(t *testing.T) {
	s, l := newLocal()
	for i := range maxTexts + 5 {
		propose(t, l, textOf(fmt.Sprintf("l%d", i)))
	}
	var b bytes.Buffer
	if err := s.State().Write(&b); err != nil {
		t.Fatal(err)
	}
	b.WriteString("rest")
	state, err := ReadState(&b)
	if err != nil || b.String() != "rest" {
		t.Fatalf("ReadState returned the error %v and left %q, want %q", err, b.String(), "rest")
	}
	restored := NewStore()
	restored.Restore(state)
	if got, want := restored.History(), s.History(); !reflect.DeepEqual(got, want) {
		t.Errorf("the restored history is\n%+v, want\n%+v", got, want)
	}
	for _, v := range s.History() {
		_, want, wantErr := s.Text(v.Number)
		if _, got, err := restored.Text(v.Number); got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("the restored text of version %d is %q, error %v; want %q, error %v", v.Number, got, err, want, wantErr)
		}
	}
	if restored.Active().Version != 0 {
		t.Error("the restored set was compiled by Restore")
	}
	restored.CompileNewest()
	if a := restored.Active(); a.Version != maxTexts+5 || a.Err != nil {
		t.Errorf("the active set is %+v, want version %d", a, maxTexts+5)
	}
	restored.Restore(State{})
	if a := restored.Active(); *a != (Active{}) || restored.Newest().Number != 0 {
		t.Errorf("after an empty state was restored, the active set is %+v", a)
	}
}

// TestStateIsACopy checks that a state does not change with its store.
func TestStateIsACopy(t *testing.T) {
	s, l := newLocal()
	propose(t, l, textOf("a"))
	state := s.State()
	if state.IsEmpty() || !(State{}).IsEmpty() {
		t.Error("IsEmpty is wrong")
	}
	for i := range maxTexts + 1 {
		propose(t, l, textOf(fmt.Sprintf("l%d", i)))
	}
	if len(state.history) != 1 || state.history[0].packed == nil {
		t.Error("the state has changed with the store")
	}
}

func FuzzReadState(f *testing.F) {
	l := NewStore()
	local := NewLocal(l, time.Now)
	for _, text := range []string{textOf("a"), textOf("b")} {
		if _, err := local.Propose(f.Context(), Proposal{Text: text}); err != nil {
			f.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := l.State().Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:b.Len()-1])
	for _, text := range []string{"[]", "{}", `[{"number":1,"packed":-1}]`, `[{"number":1,"packed":99999999999}]`, `[{"number":1},{"number":3}]`, `[{"number":0}]`} {
		f.Add(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	}
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		state, err := ReadState(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, ErrState) {
				t.Errorf("ReadState returned %v, which does not wrap ErrState", err)
			}
			return
		}
		s := NewStore()
		s.Restore(state)
		s.CompileNewest()
		if s.Active().Version != s.Newest().Number {
			t.Errorf("the active version is %d, want %d", s.Active().Version, s.Newest().Number)
		}
	})
}
