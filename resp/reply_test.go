package resp

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/tidwall/redcon"
)

// replies holds the bytes that each method adds in each protocol version.
var replies = []struct {
	name         string
	add          func(*Reply)
	resp2, resp3 string
}{
	{"raw", func(r *Reply) { r.Raw([]byte("+a\r\n:1\r\n")) }, "+a\r\n:1\r\n", "+a\r\n:1\r\n"},
	{"status", func(r *Reply) { r.Status("PONG") }, "+PONG\r\n", "+PONG\r\n"},
	{"status with line ends", func(r *Reply) { r.Status("a\r\n:1") }, "+a  :1\r\n", "+a  :1\r\n"},
	{"OK", func(r *Reply) { r.OK() }, "+OK\r\n", "+OK\r\n"},
	{"error", func(r *Reply) { r.Error("ERR no") }, "-ERR no\r\n", "-ERR no\r\n"},
	{"error with line ends", func(r *Reply) { r.Error("ERR a\r\n+OK\nb\r") }, "-ERR a  +OK b \r\n", "-ERR a  +OK b \r\n"},
	{"integer", func(r *Reply) { r.Int(7) }, ":7\r\n", ":7\r\n"},
	{"negative integer", func(r *Reply) { r.Int(-1) }, ":-1\r\n", ":-1\r\n"},
	{"largest integer", func(r *Reply) { r.Int(math.MaxInt64) }, ":9223372036854775807\r\n", ":9223372036854775807\r\n"},
	{"smallest integer", func(r *Reply) { r.Int(math.MinInt64) }, ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"},
	{"bulk", func(r *Reply) { r.Bulk([]byte("a\r\n\x00")) }, "$4\r\na\r\n\x00\r\n", "$4\r\na\r\n\x00\r\n"},
	{"empty bulk", func(r *Reply) { r.Bulk(nil) }, "$0\r\n\r\n", "$0\r\n\r\n"},
	{"text", func(r *Reply) { r.Text("twelve bytes") }, "$12\r\ntwelve bytes\r\n", "$12\r\ntwelve bytes\r\n"},
	{"array", func(r *Reply) { r.Array(2) }, "*2\r\n", "*2\r\n"},
	{"empty array", func(r *Reply) { r.Array(0) }, "*0\r\n", "*0\r\n"},
	{"map", func(r *Reply) { r.Map(7) }, "*14\r\n", "%7\r\n"},
	{"empty map", func(r *Reply) { r.Map(0) }, "*0\r\n", "%0\r\n"},
	{"set", func(r *Reply) { r.Set(12) }, "*12\r\n", "~12\r\n"},
	{"push", func(r *Reply) { r.Push(3) }, "*3\r\n", ">3\r\n"},
	{"null", func(r *Reply) { r.Null() }, "$-1\r\n", "_\r\n"},
	{"null array", func(r *Reply) { r.NullArray() }, "*-1\r\n", "_\r\n"},
	{"verbatim", func(r *Reply) { r.Verbatim("Some string") }, "$11\r\nSome string\r\n", "=15\r\ntxt:Some string\r\n"},
	{"empty verbatim", func(r *Reply) { r.Verbatim("") }, "$0\r\n\r\n", "=4\r\ntxt:\r\n"},
	{"nested", func(r *Reply) { r.Array(2); r.Map(1); r.Text("a"); r.Null(); r.Int(1) },
		"*2\r\n*2\r\n$1\r\na\r\n$-1\r\n:1\r\n", "*2\r\n%1\r\n$1\r\na\r\n_\r\n:1\r\n"},
}

func TestReply(t *testing.T) {
	for _, tt := range replies {
		for version, want := range map[int]string{2: tt.resp2, 3: tt.resp3} {
			var r Reply
			r.SetProtocol(version)
			r.Int(1)
			tt.add(&r)
			if got := string(r.Bytes()); got != ":1\r\n"+want {
				t.Errorf("%s in RESP%d: got %q, want %q", tt.name, version, got, want)
			}
			if r.Len() != len(":1\r\n"+want) {
				t.Errorf("%s in RESP%d: Len is %d, want the number of all bytes", tt.name, version, r.Len())
			}
		}
	}
}

// TestReplyIsWellFormed parses each RESP2 reply as a client does. It skips "raw", which adds two replies, and headers
// of aggregates, which are incomplete without their elements.
func TestReplyIsWellFormed(t *testing.T) {
	for _, tt := range replies {
		if strings.HasPrefix(tt.resp2, "*") && len(tt.resp2) < 7 && tt.resp2 != "*0\r\n" && tt.resp2 != "*-1\r\n" || tt.name == "raw" {
			continue
		}
		var r Reply
		tt.add(&r)
		if n, _ := redcon.ReadNextRESP(r.Bytes()); n != r.Len() {
			t.Errorf("%s: a client reads %d bytes of %q as the reply, want all bytes", tt.name, n, r.Bytes())
		}
	}
}

func TestReplyProtocol(t *testing.T) {
	var r Reply
	if r.Protocol() != 2 {
		t.Errorf("the zero value has version %d, want 2", r.Protocol())
	}
	r.Null()
	r.SetProtocol(3)
	r.Null()
	if r.Protocol() != 3 {
		t.Errorf("got version %d, want 3", r.Protocol())
	}
	r.SetProtocol(2)
	r.Null()
	if got := string(r.Bytes()); got != "$-1\r\n_\r\n$-1\r\n" || r.Protocol() != 2 {
		t.Errorf("got %q and version %d, want the nulls of RESP2, RESP3 and RESP2, and version 2", got, r.Protocol())
	}
}

func TestReplyTruncate(t *testing.T) {
	var r Reply
	r.OK()
	r.Bulk(make([]byte, 1000))
	r.Truncate(5, 100)
	if got := string(r.Bytes()); got != "+OK\r\n" {
		t.Errorf("after Truncate(5, 100): got %q, want only +OK", got)
	}
	r.Truncate(0, 5000)
	if r.Len() != 0 || cap(r.Bytes()) == 0 {
		t.Errorf("after Truncate(0, 5000): length %d, capacity %d; want length 0 and the old capacity", r.Len(), cap(r.Bytes()))
	}
	r.Truncate(0, 100)
	if r.Len() != 0 || cap(r.Bytes()) != 0 {
		t.Errorf("after Truncate(0, 100): length %d, capacity %d; want length 0 and capacity 0", r.Len(), cap(r.Bytes()))
	}
	r.OK()
	if got := string(r.Bytes()); got != "+OK\r\n" {
		t.Errorf("OK after the buffer was freed: got %q, want only +OK", got)
	}
}

func TestReplyAllocatesNothing(t *testing.T) {
	var r Reply
	name := bytes.Repeat([]byte("x"), 20)
	for _, version := range []int{2, 3} {
		r.SetProtocol(version)
		n := testing.AllocsPerRun(1000, func() {
			r.Truncate(0, 1<<20)
			r.Array(5)
			for _, n := range []int64{0, 16, 15, -1, math.MaxInt64} {
				r.Int(n)
			}
			r.Bulk(name)
			r.Map(12)
			r.Null()
			r.OK()
			r.Error("ERR value is not an integer or out of range")
			r.Verbatim("text")
		})
		if n != 0 {
			t.Errorf("RESP%d: the replies make %v allocations, want 0", version, n)
		}
	}
}

func BenchmarkReplyThrottle(b *testing.B) {
	var r Reply
	b.ReportAllocs()
	for b.Loop() {
		r.Truncate(0, 1<<10)
		r.Array(5)
		for _, n := range [...]int64{0, 16, 15, -1, 2} {
			r.Int(n)
		}
	}
}
