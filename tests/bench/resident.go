package main

import (
	"fmt"
	"time"
)

const (
	residentFactor = 3 // size of a flood as a multiple of the memory limit
)

// nameSizes lists distributions of key sizes in bytes. of(n) is the size of key n.
var nameSizes = []struct {
	name string
	mean int
	of   func(n int) int
}{
	{"16", 16, func(int) int { return 16 }},
	{"200", 200, func(int) int { return 200 }},
	{"10 to 500", 255, func(n int) int { return 10 + int(uint32(n)*2654435761>>16)%491 }},
}

// resident floods servers with keys of several sizes and of each algorithm, and compares the
// largest RSS with the memory limit.
func resident(_ settings, b *board) error {
	for _, policy := range policies {
		for _, mb := range []int{64, 128, 512} {
			for size := range nameSizes {
				if err := residentUnder(policy, mb, size, 0, b); err != nil {
					return err
				}
			}
		}
		for a := range algorithms[1:] {
			if err := residentUnder(policy, 64, 2, a+1, b); err != nil {
				return err
			}
		}
	}
	return nil
}

func residentUnder(policy string, mb, size, algorithm int, b *board) error {
	args := []string{"--maxmemory", fmt.Sprintf("%dmb", mb), "--maxmemory-policy", policy}
	return withServer(args, func(p *process) error {
		most, err := mostResident(p, mb, size, algorithm)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s, keys of %s, %s, %d MiB", algorithms[algorithm].name, nameSizes[size].name, policy, mb)
		b.note("%s: RSS is %.2f x maxmemory", what, mib(most)/float64(mb))
		b.atMost(what, mib(most), 1.25*float64(mb)+64, "MiB")
		return nil
	})
}

// mostResident floods a server and returns its largest RSS.
func mostResident(p *process, mb, size, algorithm int) (most int64, err error) {
	names := nameSizes[size]
	keys := residentFactor * mb << 20 / (names.mean + 40)
	appendTo := func(to []byte, n int) []byte {
		key := keyspace{prefix: "f:", size: names.of(n)}.append(nil, n)
		return fmt.Appendf(to, algorithms[algorithm].form, key, 10, 9, "1d", 1)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		most, err = watchResident(p.pid(), stop)
	}()
	_, sent := send(p.addr, 0, keys, appendTo)
	close(stop)
	<-done
	if sent != nil {
		return most, sent
	}
	return most, err
}

// watchResident samples the RSS of a process until stop is closed, and returns the largest.
func watchResident(pid int, stop <-chan struct{}) (most int64, err error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		rss, err := residentBytes(pid)
		if err != nil {
			return most, err
		}
		most = max(most, rss)
		select {
		case <-stop:
			return most, nil
		case <-ticker.C:
		}
	}
}
