package main

import (
	"bufio"
	"strings"
	"testing"
)

func TestParseCPU(t *testing.T) {
	f := func(stat string, want float64, ok bool) {
		t.Helper()
		if got, err := parseCPU(stat); got != want || (err == nil) != ok {
			t.Errorf("%q: %v, %v; want %v", stat, got, err, want)
		}
	}
	f("7 (throttled) S 1 7 7 0 -1 4194560 100 0 0 0 250 125 0 0 20 0 9", 3.75, true)
	f("7 (odd ) name) S 1 7 7 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 9", 0.03, true)
	f("7 (x) S 1 2", 0, false)
	f("", 0, false)
}

func TestParseResident(t *testing.T) {
	if got, err := parseResident("Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t3\n"); got != 2<<20 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := parseResident("Name:\tx\n"); err == nil {
		t.Error("a status without VmRSS is read")
	}
}

func TestParsePID(t *testing.T) {
	if got, err := parsePID("# Server\r\nprocess_id:4711\r\nrun_id:x\r\n"); got != 4711 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := parsePID("# Server\r\n"); err == nil {
		t.Error("INFO without process_id is read")
	}
}

func TestParseLoad(t *testing.T) {
	out := "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n" +
		"\"cl.throttle user:__rand_int__ 15 30 60\",\"298405.12\",\"0.392\",\"0.032\",\"0.279\",\"1.007\",\"3.135\",\"7.471\"\n"
	if got, err := parseLoad(out); err != nil || got != (figures{perSecond: 298405.12, p50: 0.279, p99: 3.135}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "Error: Connection reset by peer\n", "\"a\",\"b\"\n\"c\",\"d\"\n"} {
		if _, err := parseLoad(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func TestMedian(t *testing.T) {
	self := func(f float64) float64 { return f }
	for _, tt := range []struct {
		list []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 3}} {
		if got := median(tt.list, self); got != tt.want {
			t.Errorf("median of %v is %v; want %v", tt.list, got, tt.want)
		}
	}
}

func TestReadDecision(t *testing.T) {
	f := func(reply string, limited, ok bool) {
		t.Helper()
		got, err := readDecision(bufio.NewReader(strings.NewReader(reply)))
		if got != limited || (err == nil) != ok {
			t.Errorf("%q: %v, %v", reply, got, err)
		}
	}
	f("*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", false, true)
	f("*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:32\r\n", true, true)
	f("-ERR no\r\n", false, false)
	f("*5\r\n:1\r\n", false, false)
}

func TestBoard(t *testing.T) {
	b := &board{}
	b.atMost("reached", 1, 1, "x")
	b.atLeast("reached", 1, 1, "x")
	if b.missed != 0 {
		t.Errorf("%d bars missed; want 0", b.missed)
	}
	b.atMost("missed", 1.01, 1, "x")
	b.atLeast("missed", 0.99, 1, "x")
	if b.missed != 2 {
		t.Errorf("%d bars missed; want 2", b.missed)
	}
}
