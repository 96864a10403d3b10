package check

import (
	"testing"
	"time"

	"github.com/throttledhq/throttled/tests/chaos/history"
)

func TestLongestGap(t *testing.T) {
	ops := []history.Op{
		{Return: 50}, {Return: 10}, {Return: 20, Outcome: history.Limited},
		{Return: 35, Outcome: history.Unknown}, {Return: 900},
	}
	for _, tt := range []struct {
		from, to int64
		gap      time.Duration
		at       int64
	}{
		{0, 60, 30, 20}, {0, 100, 50, 50}, {15, 40, 20, 20}, {21, 49, 28, 21}, {0, 0, 0, 0},
	} {
		if gap, at := LongestGap(ops, tt.from, tt.to); gap != tt.gap || at != tt.at {
			t.Errorf("from %d to %d: got a gap of %d ns at %d, want %d ns at %d", tt.from, tt.to, gap, at, tt.gap, tt.at)
		}
	}
}

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration((i*37)%100+1))
	}
	for _, tt := range []struct {
		times []time.Duration
		p     float64
		want  time.Duration
	}{
		{nil, 50, 0}, {hundred, 50, 50}, {hundred, 99, 99}, {hundred, 100, 100}, {hundred, 0, 1},
		{[]time.Duration{7}, 50, 7}, {[]time.Duration{9, 7}, 50, 7}, {[]time.Duration{9, 7}, 99, 9},
	} {
		if got := Percentile(tt.times, tt.p); got != tt.want {
			t.Errorf("percentile %g of %v: got %d, want %d", tt.p, tt.times, got, tt.want)
		}
	}
}

func TestSilence(t *testing.T) {
	ops := []history.Op{{Return: 10}, {Return: 25}, {Return: 50, Outcome: history.Unknown}, {Return: 60}}
	for _, tt := range []struct {
		from, to int64
		longer   time.Duration
		want     time.Duration
	}{{0, 100, 0, 100}, {0, 100, 10, 90}, {0, 100, 20, 75}, {0, 100, 40, 0}, {0, 60, 30, 35}, {11, 20, 0, 9}} {
		if got := Silence(ops, tt.from, tt.to, tt.longer); got != tt.want {
			t.Errorf("case %+v: Silence returns %d, want the last value of the case", tt, got)
		}
	}
}
