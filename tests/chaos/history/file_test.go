package history

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

func someOps() []Op {
	a := &Key{Name: "a", MaxBurst: 9, Count: 5, Period: time.Second}
	b := &Key{Name: "b\n\"", Form: Window, Count: 1, Period: time.Hour}
	return []Op{
		{Key: a, Client: 1, Node: 2, Quantity: 3, Call: 5, Return: 8, Remaining: 7, RetryAfter: -1, ResetAfter: 1},
		{Key: b, Outcome: Unknown, Quantity: 1, Call: 6, Return: Never},
		{Key: a, Kind: Delete, Call: 9, Return: 9, Existed: true},
		{Key: a, Outcome: Limited, Quantity: -3, Call: 10, Return: 11},
	}
}

func TestFile(t *testing.T) {
	ops := someOps()
	var buf bytes.Buffer
	if err := Write(&buf, ops); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&buf)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, ops) {
		t.Errorf("Read returns %+v, want the requests that were written", got)
	}
	if got[0].Key != got[2].Key {
		t.Error("requests on equal keys do not share a Key")
	}
}

func TestBadFile(t *testing.T) {
	const key = `"key":{"count":1,"period":1}`
	for _, text := range []string{
		"{", "[]", `{}`, `{"key":{"count":1}}`,
		`{"key":{"count":0,"period":1}}`,
		`{"key":{"count":1,"period":1,"form":"other"}}`,
		`{"key":{"count":1,"period":1,"max_burst":-1}}`,
		`{"key":{"count":1,"period":9223372036854775807,"max_burst":1}}`,
		`{` + key + `,"call":-1}`,
		`{` + key + `,"call":2,"return":1}`,
		`{` + key + `,"kind":2}`,
		`{` + key + `,"outcome":3}`,
		`{` + key + `,"quantity":9223372036854775807}`,
		`{` + key + `} x`,
	} {
		if ops, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error, read as %+v; want an error", text, ops)
		}
	}
}

// FuzzRead checks that Write and Read do not change requests that Read has returned.
func FuzzRead(f *testing.F) {
	var buf bytes.Buffer
	if err := Write(&buf, someOps()); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Add([]byte(`{"key":{"count":1,"period":1}}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ops, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := Write(&out, ops); err != nil {
			t.Fatal(err)
		}
		again, err := Read(&out)
		if err != nil || !reflect.DeepEqual(ops, again) {
			t.Errorf("Write and Read change %+v to %+v (error %v)", ops, again, err)
		}
	})
}
