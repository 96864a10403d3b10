package main

import (
	"bufio"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestReadReply(t *testing.T) {
	for _, tt := range []struct {
		text string
		want reply
		nums []int64
	}{
		{"+OK\r\n", reply{kind: '+', text: "OK"}, nil},
		{"-BUSY try later\r\n", reply{kind: '-', text: "BUSY try later"}, nil},
		{":-7\r\n", reply{kind: ':', n: -7}, nil},
		{"$5\r\na\r\nbc\r\n", reply{kind: '$', n: 5, text: "a\r\nbc"}, nil},
		{"$-1\r\n", reply{kind: '$', n: -1}, nil},
		{"*-1\r\n", reply{kind: '*', n: -1}, nil},
		{"*3\r\n:1\r\n:2\r\n+x\r\n", reply{kind: '*', n: 3, list: []reply{{kind: ':', n: 1}, {kind: ':', n: 2}, {kind: '+', text: "x"}}}, []int64{1, 2}},
		{"*1\r\n*1\r\n:4\r\n", reply{kind: '*', n: 1, list: []reply{{kind: '*', n: 1, list: []reply{{kind: ':', n: 4}}}}}, nil},
	} {
		got, err := readReply(bufio.NewReader(strings.NewReader(tt.text)))
		if err != nil || !reflect.DeepEqual(got, tt.want) || !slices.Equal(got.integers(), tt.nums) {
			t.Errorf("%q: read as %+v, error: %v; want the reply and the integers of the case", tt.text, got, err)
		}
	}
}

func TestReadBadReply(t *testing.T) {
	for _, text := range []string{
		"", "\r\n", "+OK\n", "+OK", "x\r\n", ":\r\n", ":1.5\r\n", "$-2\r\n", "$9000000000\r\n", "$2\r\nabcd", "$2\r\na", "*-2\r\n", "*70000\r\n", "*2\r\n:1\r\n",
		strings.Repeat("*1\r\n", maxDepth+2) + ":1\r\n", "+" + strings.Repeat("x", 5000) + "\r\n",
	} {
		if got, err := readReply(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%.40q: no error, read as %+v; want an error", text, got)
		}
	}
}

func TestFields(t *testing.T) {
	got := fields("# Replication\r\nrole:master\r\nraft_term:12\r\nmaster_host:a:b\r\n\r\n")
	want := map[string]string{"role": "master", "raft_term": "12", "master_host": "a:b"}
	if !reflect.DeepEqual(got, want) || !leads(got) || termOf(got) != 12 || number(got, "role") != 0 {
		t.Errorf("fields of a leader: %v; want role master, raft_term 12 and master_host a:b", got)
	}
	if leads(fields("role:slave\r\n")) || leads(nil) {
		t.Error("leads returns true for a follower, or without any fields")
	}
}

func TestFateOf(t *testing.T) {
	for _, tt := range []struct {
		r    reply
		err  error
		fate fate
		word string
	}{
		{reply{kind: '*'}, nil, decided, ""},
		{reply{kind: ':'}, nil, decided, ""},
		{reply{kind: '-', text: "LOADING no leader"}, nil, refused, "LOADING"},
		{reply{kind: '-', text: "CLUSTERDOWN x"}, nil, refused, "CLUSTERDOWN"},
		{reply{kind: '-', text: "TRYAGAIN x"}, nil, refused, "TRYAGAIN"},
		{reply{kind: '-', text: "BUSY"}, nil, refused, "BUSY"},
		{reply{kind: '-', text: "OOM x"}, nil, refused, "OOM"},
		{reply{kind: '-', text: "UNCERTAIN it may have taken effect"}, nil, unknown, "UNCERTAIN"},
		{reply{kind: '-', text: "ERR syntax"}, nil, wrong, "ERR"},
		{reply{kind: '*'}, errors.New("reset"), unknown, "connection"},
	} {
		if f, word := fateOf(&tt.r, tt.err); f != tt.fate || word != tt.word {
			t.Errorf("fate of the reply %+v with the error %v: got %d, %q; want the fate and the word of the case", tt.r, tt.err, f, word)
		}
	}
}

func TestReadFingerprint(t *testing.T) {
	text := func(s string) reply { return reply{kind: '$', text: s} }
	good := reply{list: []reply{text("index"), {kind: ':', n: 7}, text("log-time"), {kind: ':', n: 8}, text("keys"), {kind: ':', n: 9}, text("sum"), text("ab")}}
	f, err := readFingerprint(&good)
	if err != nil || f.Index != 7 || f.LogTime != 8 || f.Keys != 9 || f.Sum != "ab" {
		t.Errorf("got the fingerprint %+v, want 7, 8, 9 and ab; error: %v", f, err)
	}
	for _, bad := range []reply{{}, {list: good.list[:6]}, {list: good.list[2:]}, {list: append(slices.Clone(good.list[:7]), text(""))}} {
		if f, err := readFingerprint(&bad); !errors.Is(err, errFingerprint) {
			t.Errorf("invalid reply %+v: read as %+v, error: %v; want errFingerprint", bad, f, err)
		}
	}
}

// FuzzReadReply checks that readReply does not panic, and returns at most as many elements as its
// input has bytes.
func FuzzReadReply(f *testing.F) {
	for _, seed := range []string{"+OK\r\n", "*2\r\n$1\r\na\r\n:-1\r\n", "$-1\r\n", "*-1\r\n", "-ERR\r\n", "*1\r\n*1\r\n*1\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := readReply(bufio.NewReader(strings.NewReader(text)))
		if err == nil && len(r.list) > len(text) {
			t.Errorf("%d elements were read from %d bytes, want no more elements than bytes", len(r.list), len(text))
		}
	})
}
