package entrylog

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestRecord_RoundTrip(t *testing.T) {
	for name, want := range map[string]*raft.Log{
		"command":          command(7, 3, 100),
		"empty":            {Index: 1},
		"large numbers":    {Index: 1<<64 - 1, Term: 1<<64 - 2, Type: 255, AppendedAt: time.Unix(0, -1)},
		"long extensions":  {Index: 2, Extensions: bytes.Repeat([]byte{1}, 300), Data: []byte("x")},
		"data of a record": {Index: 3, Data: appendRecord(nil, command(4, 1, 10))},
	} {
		b := append(appendRecord([]byte("before"), want), "after"...)
		got, rest, err := decodeRecord(b[len("before"):])
		if err != nil || !same(&got, want) || string(rest) != "after" {
			t.Errorf("%s: %+v, rest %q, %v; want %+v", name, got, rest, err, *want)
		}
	}
}

// TestRecord_Layout pins the bytes, which other versions have to read. The checksums are
// from another implementation of CRC-32C.
func TestRecord_Layout(t *testing.T) {
	entry := &raft.Log{Index: 0x0102, Term: 3, Type: raft.LogBarrier, AppendedAt: time.Unix(0, 5), Extensions: []byte("ab"), Data: []byte("xyz")}
	want := "\x1f\x00\x00\x00" + "\xce\xab\xb4\xb7" + "\xc9\xb0\xff\x50" +
		"\x02\x01\x00\x00\x00\x00\x00\x00" + "\x03\x00\x00\x00\x00\x00\x00\x00" + "\x04" +
		"\x05\x00\x00\x00\x00\x00\x00\x00" + "\x02ab" + "xyz"
	if got := appendRecord(nil, entry); string(got) != want {
		t.Errorf("the record is\n%q; want\n%q", got, want)
	}
}

func TestRecord_Refused(t *testing.T) {
	record := appendRecord(nil, command(7, 3, 30))
	fields := func(payload string) []byte {
		b := append(make([]byte, headerSize), payload...)
		seal(b)
		return b
	}
	fixed := string(make([]byte, fixedSize))
	for name, tc := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":                   {nil, errCut},
		"part of a header":          {record[:headerSize-1], errCut},
		"a header":                  {record[:headerSize], errCut},
		"all but a byte":            {record[:len(record)-1], errCut},
		"zeros":                     {make([]byte, 100), errHeader},
		"another length":            {append([]byte{record[0] + 1}, record[1:]...), errHeader},
		"another byte at the end":   {append(bytes.Clone(record[:len(record)-1]), record[len(record)-1]^1), errPayload},
		"a payload without lengths": {fields(fixed), errFields},
		"extensions that are cut":   {fields(fixed + "\x03ab"), errFields},
		"a length that is cut":      {fields(fixed + "\x80"), errFields},
		"a length of ten bytes":     {fields(fixed + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), errFields},
		"a length in excess bytes":  {fields(fixed + "\x81\x00a"), errFields},
		"the largest length":        {fields(fixed + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), errFields},
	} {
		if _, _, err := decodeRecord(tc.b); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v; want %v", name, err, tc.want)
		}
	}
}

// FuzzDecodeRecord reads bytes as they are, and again as the payload of a record that is
// sealed rightly. What is accepted is encoded as it was.
func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendRecord(nil, command(9, 4, 20)))
	f.Add(appendRecord(nil, command(9, 4, 20))[headerSize:])
	f.Add(append(make([]byte, fixedSize), "\x81\x00a"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		whole := append(make([]byte, headerSize), b...)
		seal(whole)
		for _, record := range [][]byte{b, whole} {
			entry, rest, err := decodeRecord(record)
			if err != nil {
				continue
			}
			if again := appendRecord(nil, &entry); !bytes.Equal(again, record[:len(record)-len(rest)]) {
				t.Errorf("%q is read as %+v, which is written as %q", record, entry, again)
			}
		}
	})
}
