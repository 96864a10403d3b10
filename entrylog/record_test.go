package entrylog

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestRecord_RoundTrip(t *testing.T) {
	for name, want := range map[string][]*raft.Log{
		"command":          {command(7, 3, 100)},
		"commands":         commands(7, 20, 3, 100),
		"empty":            {{Index: 1}},
		"large numbers":    {{Index: 1<<64 - 1, Term: 1<<64 - 2, Type: 255, AppendedAt: time.Unix(0, -1)}},
		"long extensions":  {{Index: 2, Extensions: bytes.Repeat([]byte{1}, 300), Data: []byte("x")}},
		"data of a record": {{Index: 3, Data: appendRecord(nil, command(4, 1, 10))}},
		"data of zeros":    {{Index: 3, Data: make([]byte, 2000)}},
		"a whole sector":   {command(5, 3, sector-headerSize-4-fixedSize-1)},
		"a byte more":      {command(5, 3, sector-headerSize-4-fixedSize)},
	} {
		before := bytes.Repeat([]byte("before??"), sector/8)
		b := appendRecord(bytes.Clone(before), want...)
		if len(b)%sector != 0 || !bytes.HasPrefix(b, before) {
			t.Errorf("%s: the record is %d bytes long", name, len(b)-len(before))
		}
		got, rest, err := decodeRecord(append(b[len(before):], "after"...))
		if err != nil || len(got) != len(want) || string(rest) != "after" {
			t.Errorf("%s: %+v, rest %q, %v", name, got, rest, err)
			continue
		}
		for i := range got {
			if !same(&got[i], want[i]) {
				t.Errorf("%s: %+v; want %+v", name, got[i], *want[i])
			}
		}
	}
}

// TestRecord_Layout pins the bytes, which other versions have to read. The checksums are
// from another implementation of CRC-32C.
func TestRecord_Layout(t *testing.T) {
	entry := &raft.Log{Index: 0x0102, Term: 3, Type: raft.LogBarrier, AppendedAt: time.Unix(0, 5), Extensions: []byte("ab"), Data: []byte("xyz")}
	want := "frn\x00" + "\x23\x00\x00\x00" + "\xb5\x99\x8a\xb9" + "\x89\x23\xbd\x40" +
		"\x1f\x00\x00\x00" + "\x02\x01\x00\x00\x00\x00\x00\x00" + "\x03\x00\x00\x00\x00\x00\x00\x00" + "\x04" +
		"\x05\x00\x00\x00\x00\x00\x00\x00" + "\x02ab" + "xyz"
	want += strings.Repeat("\xff", 512-len(want))
	if got := appendRecord(nil, entry); string(got) != want {
		t.Errorf("the record is\n%q; want\n%q", got, want)
	}
	zeros := appendRecord(nil, &raft.Log{Index: 1, Data: make([]byte, 2000)})
	if got := string(zeros[:4]); got != "frn\x01" {
		t.Errorf("a record with sectors of zeros begins with %q", got)
	}
}

func TestRecord_Refused(t *testing.T) {
	record := appendRecord(nil, command(7, 3, 30))
	flipped := func(at int) []byte {
		b := bytes.Clone(record)
		b[at] ^= 1
		return b
	}
	payload := func(b ...byte) []byte { return seal(append(make([]byte, headerSize), b...), 0) }
	entry := func(fields string) []byte {
		b := append([]byte{byte(fixedSize + len(fields)), 0, 0, 0}, make([]byte, fixedSize)...)
		return payload(append(b, fields...)...)
	}
	for name, tc := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":                         {nil, errCut},
		"part of a mark":                  {record[:2], errCut},
		"part of a header":                {record[:headerSize-1], errCut},
		"a header":                        {record[:headerSize], errCut},
		"all but a byte":                  {record[:len(record)-1], errCut},
		"zeros":                           {make([]byte, 100), errHeader},
		"a zero":                          {make([]byte, 1), errHeader},
		"another mark":                    {flipped(0), errHeader},
		"another length":                  {flipped(4), errHeader},
		"another byte in an entry":        {flipped(headerSize + 40), errPayload},
		"another byte behind the last":    {flipped(len(record) - 1), errPayload},
		"no entry":                        {payload(), errFields},
		"part of an entry's length":       {payload(1, 0, 0), errFields},
		"an entry that is cut":            {payload(9, 0, 0, 0, 1), errFields},
		"an entry of no bytes":            {payload(0, 0, 0, 0), errFields},
		"an entry without lengths":        {entry(""), errFields},
		"extensions that are cut":         {entry("\x03ab"), errFields},
		"a length that is cut":            {entry("\x80"), errFields},
		"a length of ten bytes":           {entry("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), errFields},
		"a length in excess bytes":        {entry("\x81\x00a"), errFields},
		"the largest length":              {entry("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), errFields},
		"something behind the last entry": {seal(append(record[:headerSize+4+fixedSize+3+30:headerSize+4+fixedSize+3+30], 1), 0), errFields},
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
	f.Add(appendRecord(nil, commands(9, 12, 4, 20)...)[headerSize:][:4*54])
	f.Add(appendRecord(nil, &raft.Log{Index: 1, Data: make([]byte, 1200)}))
	f.Add(append(make([]byte, fixedSize), "\x81\x00a"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		whole := seal(append(make([]byte, headerSize), b...), 0)
		for _, record := range [][]byte{b, whole} {
			entries, rest, err := decodeRecord(record)
			if err != nil {
				continue
			}
			var again []*raft.Log
			for i := range entries {
				again = append(again, &entries[i])
			}
			if b := appendRecord(nil, again...); !bytes.Equal(b, record[:len(record)-len(rest)]) {
				t.Errorf("%q is read as %+v, which is written as %q", record, entries, b)
			}
		}
	})
}
