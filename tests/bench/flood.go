package main

import (
	"fmt"
	"time"
)

const (
	floodLimit = 256 // MiB of maxmemory
	floodKeys  = 20_000_000
	exhausted  = 100_000 // keys that are exhausted before the flood
	longKeys   = 20_000  // keys at the end of the flood, each far larger than the others
	longKey    = 30_000  // bytes

	othersLimit     = 6 // MiB of maxmemory
	othersKeys      = 400_000
	othersExhausted = 200
	exhaustedPeriod = 60 * time.Second // period of the limit of the exhausted keys
)

var policies = []string{"noeviction", "evict-smallest-debt"}

// flood exhausts keys, and floods the server with other keys far beyond its memory limit. It checks
// that the memory of the server is bounded and that the exhausted keys are kept.
func flood(_ settings, b *board) error {
	if err := floodWithOthers(b); err != nil {
		return err
	}
	for _, policy := range policies {
		args := []string{"--maxmemory", fmt.Sprintf("%dmb", floodLimit), "--maxmemory-policy", policy}
		if err := withServer(args, func(p *process) error { return floodOne(p, policy, b) }); err != nil {
			return err
		}
	}
	return nil
}

func floodOne(p *process, policy string, b *board) error {
	mine := keyspace{"mine:", 16, 0, exhausted}
	if err := fillAll(p.addr, mine, never+" 10"); err != nil {
		return err
	}
	var most int64
	var all outcome
	const parts = 20
	for i := range parts {
		part := keyspace{"junk:", 16, floodKeys / parts * i, floodKeys / parts * (i + 1)}
		o, err := fill(p.addr, part, never)
		if err != nil {
			return err
		}
		all.add(o)
		rss, err := residentBytes(p.pid())
		if err != nil {
			return err
		}
		most = max(most, rss)
	}
	long, err := fill(p.addr, keyspace{"long:", longKey, 0, longKeys}, never)
	if err != nil {
		return err
	}
	after, err := fill(p.addr, mine, never)
	if err != nil {
		return err
	}
	b.note("%s: %d new keys, %d stored, %d refused with -OOM; of %d keys of %d bytes, %d refused", policy, floodKeys, all.admitted, all.failed, longKeys, longKey, long.failed)
	b.atMost(policy+": RSS during the flood", mib(most), 1.25*floodLimit+64, "MiB")
	b.atMost(policy+": exhausted keys that were evicted", float64(exhausted-after.limited), 0, "")
	return nil
}

// algorithms lists the limiter commands as formats. The arguments are a key, a limit, the
// limit minus one, a period and a quantity.
var algorithms = []struct{ name, form string }{
	{"THROTTLE", "CL.THROTTLE %[1]s %[3]d %[2]d %[4]s %[5]d"},
	{"SLIDING", "CL.WINDOW %[1]s %[2]d %[4]s %[5]d SLIDING"},
	{"FIXED", "CL.WINDOW %[1]s %[2]d %[4]s %[5]d FIXED"},
	{"LOG", "CL.WINDOW %[1]s %[2]d %[4]s %[5]d LOG"},
	{"BUCKETS", "CL.WINDOW %[1]s %[2]d %[4]s %[5]d BUCKETS 6"},
	{"BUCKET", "CL.BUCKET %[1]s %[2]d %[2]d %[4]s %[5]d"},
	{"LEAKY", "CL.LEAKY %[1]s %[2]d %[2]d %[4]s %[5]d"},
}

// halfUsed lists limits, each with a quantity of at most half of the limit.
var halfUsed = []struct{ limit, quantity int }{{1000, 1}, {5, 1}, {10, 5}, {1000, 500}}

// floodWithOthers exhausts keys with a limit of five per minute. Then it floods the server
// with keys of each algorithm and of several periods, each at most half used.
func floodWithOthers(b *board) error {
	args := []string{"--maxmemory", fmt.Sprintf("%dmb", othersLimit), "--maxmemory-policy", "evict-smallest-debt"}
	for _, a := range algorithms {
		for _, period := range []string{"1s", "1m", "1h", "1d", "30d"} {
			flood := func(p *process) error { return floodWith(p, a.name, a.form, period, b) }
			if err := withServer(args, flood); err != nil {
				return err
			}
		}
	}
	return nil
}

func floodWith(p *process, name, form, period string, b *board) error {
	mine := keyspace{"login:", 16, 0, othersExhausted}
	begin := time.Now()
	if err := fillAll(p.addr, mine, "4 5 1m 5"); err != nil {
		return err
	}
	all, err := send(p.addr, 0, othersKeys, func(to []byte, n int) []byte {
		l := halfUsed[n%len(halfUsed)]
		return fmt.Appendf(to, form, fmt.Sprint("api:", n), l.limit, l.limit-1, period, l.quantity)
	})
	if err != nil {
		return err
	}
	text, err := command(p.addr, "KEYS login:*")
	if err != nil {
		return err
	}
	took := time.Since(begin)
	survivors := countLines(text)
	b.note("%s, %s: %d keys stored, %d refused, in %.1f s", name, period, all.admitted, all.failed, took.Seconds())
	if took > exhaustedPeriod/4 {
		return fmt.Errorf("the flood took %v, in which the exhausted keys have restored much of their limit: the result is not meaningful", took)
	}
	b.atLeast(name+", "+period+": exhausted keys that survive", float64(survivors), othersExhausted, "")
	return nil
}
