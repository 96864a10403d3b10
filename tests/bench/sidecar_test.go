package main

import (
	"bufio"
	"strings"
	"testing"
	"time"
)

func TestFollowsAfter(t *testing.T) {
	const high, low, exact = directShare + 2*fairDeviation, maxMinShare - 2*fairDeviation, maxMinShare
	for _, tt := range []struct {
		shares []float64
		want   time.Duration
	}{
		{nil, 0},
		{[]float64{exact, directShare + 0.9*fairDeviation, exact - 0.9*fairDeviation}, 0},
		{[]float64{low, high, exact}, 2 * fairWindow},
		{[]float64{exact, low, exact, exact}, 2 * fairWindow},
		{[]float64{exact, exact, high}, 3 * fairWindow},
	} {
		if got := followsAfter(tt.shares); got != tt.want {
			t.Errorf("shares %v: they follow after %v, want %v", tt.shares, got, tt.want)
		}
	}
}

// TestDue checks that the demands are exchanged after a phase, and that both are the same in total.
func TestDue(t *testing.T) {
	const phase = int(fairPhase / time.Second)
	for _, tt := range []struct {
		first   bool
		elapsed time.Duration
		want    int
	}{
		{true, 0, 0},
		{true, fairPhase, fairHigh * phase},
		{true, fairPhase + time.Second, fairHigh*phase + fairLow},
		{false, fairPhase, fairLow * phase},
		{false, fairPhase + time.Second, fairLow*phase + fairHigh},
		{true, 2 * fairPhase, (fairHigh + fairLow) * phase},
		{false, 2 * fairPhase, (fairHigh + fairLow) * phase},
	} {
		d := demandSide{first: tt.first}
		if got := d.due(tt.elapsed); got != tt.want {
			t.Errorf("first %v: %d requests are due after %v, want %d", tt.first, got, tt.elapsed, tt.want)
		}
	}
}

// TestReceive checks that admissions are counted in the window in which they arrive, and that refusals and late replies are
// not counted.
func TestReceive(t *testing.T) {
	const admission, refusal = "*5\r\n:0\r\n:9\r\n:8\r\n:-1\r\n:1\r\n", "*5\r\n:1\r\n:9\r\n:0\r\n:1\r\n:1\r\n"
	sent := func(numbers ...int) <-chan int {
		c := make(chan int, len(numbers))
		for _, n := range numbers {
			c <- n
		}
		close(c)
		return c
	}
	var d demandSide
	replies := bufio.NewReader(strings.NewReader(strings.Repeat(admission+refusal, 2)))
	if err := d.receive(replies, time.Now().Add(-fairWindow), sent(1, 3)); err != nil || d.admitted[1].Load() != 2 {
		t.Errorf("%d admissions are counted in the second window, want 2; error: %v", d.admitted[1].Load(), err)
	}
	late := bufio.NewReader(strings.NewReader(admission))
	if err := d.receive(late, time.Now().Add(-2*fairPhases*fairPhase), sent(1)); err != nil {
		t.Errorf("a reply after the last window causes the error %v", err)
	}
	if err := d.receive(late, time.Now(), sent(1)); err == nil {
		t.Error("a missing reply causes no error")
	}
}

func TestMedianOfEach(t *testing.T) {
	calls := 0
	got, err := medianOfEach([]string{"a", "b"}, 3, func(addr string) (float64, error) {
		calls++
		if addr == "a" {
			return float64(calls), nil
		}
		return float64(10 * calls), nil
	})
	if err != nil || len(got) != 2 || got[0] != 3 || got[1] != 40 {
		t.Errorf("the medians are %v, want 3 and 40; error: %v", got, err)
	}
}

// TestColdRun checks that the work of the upstreams is divided by the number of requests.
func TestColdRun(t *testing.T) {
	r := coldRun{
		requests: 1000, seconds: 2, p50: 1, p99: 3,
		before: upstreamWork{cpu: 1, leaderCPU: 0.5, reads: 10, writes: 20, entries: 30},
		after:  upstreamWork{cpu: 1.02, leaderCPU: 0.51, reads: 110, writes: 220, entries: 80},
	}
	const want = "CPU per request  20.00 us (leader  10.00), requests per entry  20.0, per read 10.0, per write  5.0; p50 1.00 p99 3.00 ms, 500 req/s"
	if got := describeCold([]coldRun{r}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestWorkOf checks the work of a server whose clients wait for each reply.
func TestWorkOf(t *testing.T) {
	t.Chdir(repository) // the root of the module, where the programs are built
	err := withServer(nil, func(p *process) error {
		ups := []upstream{{p.addr, p.pid()}}
		before, err := workOf(ups)
		if err != nil {
			return err
		}
		for range 3 {
			if _, err := command(p.addr, "PING"); err != nil {
				return err
			}
		}
		after, err := workOf(ups)
		if reads := after.reads - before.reads; reads < 3 || after.writes-before.writes < 3 || after.cpu < before.cpu || after.leaderCPU != after.cpu {
			t.Errorf("the work was %+v before three commands, and %+v after them", before, after)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
