package main

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"time"
)

const (
	lowerFrom  = 10      // MiB of maxmemory
	lowerTo    = 1       // MiB
	lowerKeys  = 400_000 // more than fit
	lowerAtEnd = 200     // new keys in the same write as CONFIG SET
	lowerBar   = 2 * time.Second
)

// lower lowers maxmemory by CONFIG SET, with and without a data directory. It checks that new
// keys are refused immediately after the command. If the policy evicts keys, it also measures
// the time until the memory is below the limit.
func lower(_ settings, b *board) error {
	for _, durable := range []bool{false, true} {
		for _, policy := range policies {
			args := []string{"--maxmemory", fmt.Sprintf("%dmb", lowerFrom), "--maxmemory-policy", policy}
			if durable {
				args = append(args, "--data-dir", "data")
			}
			if err := withServer(args, func(p *process) error { return lowerOne(p, policy, durable, b) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func lowerOne(p *process, policy string, durable bool, b *board) error {
	if _, err := fill(p.addr, keyspace{"k:", 16, 0, lowerKeys}, never); err != nil {
		return err
	}
	what := policy
	if durable {
		what += ", data-dir"
	}
	before, err := usedMemory(p.addr)
	if err != nil {
		return err
	}
	begin := time.Now()
	admitted, err := lowerAndAdd(p.addr)
	if err != nil {
		return err
	}
	b.atMost(what+": new keys admitted immediately", float64(admitted), 0, "")
	if policy == "noeviction" {
		o, err := fill(p.addr, keyspace{"new:", 16, 0, 20_000}, never)
		if err != nil {
			return err
		}
		after, err := usedMemory(p.addr)
		b.atMost(what+": new keys admitted of 20,000", float64(o.admitted), 0, "")
		b.atLeast(what+": memory still in use", float64(after), float64(before)/2, "bytes")
		return err
	}
	for {
		used, err := usedMemory(p.addr)
		if err != nil {
			return err
		}
		took := time.Since(begin)
		if used <= lowerTo<<20 || took > 10*lowerBar {
			b.atMost(what+": time until below the limit", took.Seconds(), lowerBar.Seconds(), "s")
			return nil
		}
		time.Sleep(10 * time.Millisecond) // the sampling interval: the server does not report changes of its memory
	}
}

// lowerAndAdd sends CONFIG SET and charges of new keys in one write. It returns the number of
// charges that were decided, which excludes error replies.
func lowerAndAdd(addr string) (admitted int, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	batch := fmt.Appendf(nil, "CONFIG SET maxmemory %dmb\r\n", lowerTo)
	for n := range lowerAtEnd {
		batch = fmt.Appendf(batch, "CL.THROTTLE behind:%d 0 1 1d\r\n", n)
	}
	if _, err := c.Write(batch); err != nil {
		return 0, err
	}
	replies := bufio.NewReader(c)
	if _, err := readReply(replies); err != nil {
		return 0, err
	}
	var o outcome
	for range lowerAtEnd {
		if err := o.read(replies); err != nil {
			return 0, err
		}
	}
	return o.admitted + o.limited, nil
}

func usedMemory(addr string) (int64, error) {
	text, err := infoField(addr, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}
