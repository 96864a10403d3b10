package wal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
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
			t.Errorf("%s: the record of %d bytes does not fill whole sectors, or the bytes before it have changed", name, len(b)-len(before))
		}
		got, rest, err := decodeRecord(append(b[len(before):], "after"...))
		if err != nil || len(got) != len(want) || string(rest) != "after" {
			t.Errorf("%s: decodeRecord returns %+v, rest %q, %v; want all entries, and the rest \"after\"", name, got, rest, err)
			continue
		}
		for i := range got {
			if !same(&got[i], want[i]) {
				t.Errorf("%s: the decoded entry is %+v; want %+v", name, got[i], *want[i])
			}
		}
	}
}

// TestRecord_Layout checks the bytes of an encoded record. The expected bytes are from an
// independent implementation.
func TestRecord_Layout(t *testing.T) {
	entry := &raft.Log{Index: 0x0102, Term: 3, Type: raft.LogBarrier, AppendedAt: time.Unix(0, 5), Extensions: []byte("ab"), Data: []byte("xyz")}
	const want = "66726e32" + "23000000" + "51bb257a" + "0691f67a" + // the first checksum covers all bytes after the header
		"c253af89351a135121b5956140c1ef2d55fb638d73fae1b7f5f9275faf2b1e4fefa62f05f33bd507"
	got := appendRecord(nil, entry)
	if len(got) != sector || hex.EncodeToString(got[:len(want)/2]) != want {
		t.Errorf("the record of %d bytes begins with\n%x; want 512 bytes that begin with\n%s", len(got), got[:len(want)/2], want)
	}
}

// TestRecord_Scrambled checks that at least half of the bytes of each written sector are not zero.
func TestRecord_Scrambled(t *testing.T) {
	for name, entry := range map[string]*raft.Log{
		"zeros":        {Index: 1, Data: make([]byte, 5000)},
		"a bit":        {Index: 1, Data: append(make([]byte, 3000), 1)},
		"ones":         {Index: 1, Data: bytes.Repeat([]byte{0xff}, 5000)},
		"without data": {},
	} {
		for part := range slices.Chunk(appendRecord(nil, entry), sector) {
			if n := len(part) - bytes.Count(part, []byte{0}); n < sector/2 {
				t.Errorf("%s: a sector has only %d bytes that are not zero; want at least 256", name, n)
			}
		}
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
		"nothing":                       {nil, errCut},
		"part of a mark":                {record[:2], errCut},
		"part of a header":              {record[:headerSize-1], errCut},
		"a header":                      {record[:headerSize], errCut},
		"all but a byte":                {record[:len(record)-1], errCut},
		"zeros":                         {make([]byte, 100), errHeader},
		"a zero":                        {make([]byte, 1), errHeader},
		"another mark":                  {flipped(0), errHeader},
		"another length":                {flipped(4), errHeader},
		"another byte in an entry":      {flipped(headerSize + 40), errPayload},
		"a changed byte in the padding": {flipped(len(record) - 1), errPayload},
		"no entry":                      {payload(), errFields},
		"part of an entry's length":     {payload(1, 0, 0), errFields},
		"an entry that is cut":          {payload(9, 0, 0, 0, 1), errFields},
		"an entry of no bytes":          {payload(0, 0, 0, 0), errFields},
		"an entry without lengths":      {entry(""), errFields},
		"extensions that are cut":       {entry("\x03ab"), errFields},
		"a length that is cut":          {entry("\x80"), errFields},
		"a length of ten bytes":         {entry("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), errFields},
		"a length in excess bytes":      {entry("\x81\x00a"), errFields},
		"the largest length":            {entry("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), errFields},
		"a byte after the last entry":   {seal(append(appendEntry(make([]byte, headerSize), command(7, 3, 30)), 1), 0), errFields},
	} {
		if _, _, err := decodeRecord(tc.b); !errors.Is(err, tc.want) {
			t.Errorf("%s: decodeRecord returns %v; want %v", name, err, tc.want)
		}
	}
}

// FuzzDecodeRecord decodes the input as a record and as the payload of a valid record. If the decoding
// succeeds, the entries must be encoded to the same bytes.
func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendRecord(nil, command(9, 4, 20)))
	f.Add(appendEntry(appendEntry(nil, command(9, 4, 20)), command(10, 4, 20)))
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
				t.Errorf("%q is decoded as %+v, which is encoded as %q; want the same bytes again", record, entries, b)
			}
		}
	})
}
