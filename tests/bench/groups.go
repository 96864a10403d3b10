package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	groupClients = 16
	groupKeys    = 24
	groupMost    = 8           // largest number of limits in one call
	groupWait    = time.Second // bar for the longest wait for a reply
)

// groupSpecs returns the limits that groups are made of. No unit is restored within a day,
// so the used units at the end equal the charged units. Every second limit is so small
// that it often refuses.
func groupSpecs() []string {
	forms := []string{
		"THROTTLE %s %[3]d 1 1d", "WINDOW %s %[2]d 36500d", "BUCKET %s %[2]d 1 1d",
		"LEAKY %s %[2]d 1 1d", "WINDOW %s %[2]d 365d LOG", "WINDOW %s %[2]d 36500d BUCKETS 7",
	}
	specs := make([]string, groupKeys)
	for i := range specs {
		limit := 1_000_000_000
		if i%2 == 1 {
			limit = 40 + 10*i
		} else if i%len(forms) == 4 {
			limit = 8000 // below window-log-max-entries, which is 8192 by default
		} else if i%len(forms) != 1 && i%len(forms) != 5 {
			limit = 100_000 // the full limit takes 100,000 days to restore; the clock cannot represent much longer times
		}
		specs[i] = fmt.Sprintf(forms[i%len(forms)], fmt.Sprint("group:", i), limit, limit-1)
	}
	return specs
}

// groups runs clients that charge and refund groups of limits on the same few keys. At the
// end, the charges of each key must equal the number of groups with that key that were
// admitted and not refunded.
func groups(s settings, b *board) error {
	return withServer(nil, func(p *process) error {
		specs := groupSpecs()
		records := make([]clientRecord, groupClients)
		var running sync.WaitGroup
		end := time.Now().Add(s.groups)
		for i := range records {
			running.Go(func() { records[i] = joinGroups(p.addr, specs, end, uint64(i)) })
		}
		running.Wait()
		return judgeGroups(p.addr, specs, records, b)
	})
}

// clientRecord counts the calls and charges of one client.
type clientRecord struct {
	calls, refused int
	charged        [groupKeys]int64
	longest        time.Duration // longest wait for a reply
	err            error
}

// joinGroups charges groups, and refunds some of them, until the time end.
func joinGroups(addr string, specs []string, end time.Time, seed uint64) (m clientRecord) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return clientRecord{err: err}
	}
	defer func() { _ = c.Close() }()
	replies := bufio.NewReader(c)
	r := rand.New(rand.NewPCG(seed, 8))
	var held [][]int // groups that are admitted and not refunded
	for begin := time.Now(); begin.Before(end); begin = time.Now() {
		keys, quantity := r.Perm(groupKeys)[:1+r.IntN(groupMost)], int64(1)
		if n := len(held); n > 0 && r.IntN(5) < 2 {
			keys, quantity, held = held[n-1], -1, held[:n-1]
		}
		if m.err = c.SetDeadline(begin.Add(10 * time.Second)); m.err != nil {
			return m
		}
		decisions, err := askGroup(c, replies, specs, keys, quantity)
		if err != nil {
			m.err = err
			return m
		}
		m.calls++
		m.longest = max(m.longest, time.Since(begin))
		if decisions[0][0] == 1 {
			m.refused++
			continue
		}
		for _, key := range keys {
			m.charged[key] += quantity
		}
		if quantity > 0 {
			held = append(held, keys)
		}
	}
	return m
}

// askGroup sends a CL.ALL and returns its decisions: the overall decision, followed by the
// decision of each limit.
func askGroup(w io.Writer, r *bufio.Reader, specs []string, keys []int, quantity int64) ([][]int64, error) {
	text := "CL.ALL " + strconv.FormatInt(quantity, 10)
	for _, key := range keys {
		text += " " + specs[key]
	}
	if _, err := io.WriteString(w, text+"\r\n"); err != nil {
		return nil, err
	}
	decisions, err := readGroup(r)
	if err == nil && len(decisions) != len(keys)+1 {
		err = fmt.Errorf("%d decisions for %d limits", len(decisions)-1, len(keys))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", text, err)
	}
	return decisions, err
}

// readGroup reads the reply to CL.ALL: five integers, and an array of integers for each limit.
func readGroup(r *bufio.Reader) (decisions [][]int64, err error) {
	n, err := readNumber(r, '*')
	if err != nil {
		return nil, err
	}
	first, err := readNumbers(r, 5)
	decisions = append(decisions, first)
	for range n - 5 {
		if err != nil {
			return nil, err
		}
		var size int64
		if size, err = readNumber(r, '*'); err == nil {
			first, err = readNumbers(r, size)
			decisions = append(decisions, first)
		}
	}
	return decisions, err
}

func readNumbers(r *bufio.Reader, n int64) (list []int64, err error) {
	for range n {
		i, err := readNumber(r, ':')
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, nil
}

// readNumber reads a line with a type byte and a number.
func readNumber(r *bufio.Reader, kind byte) (int64, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("unexpected reply %q", line)
	}
	return strconv.ParseInt(strings.TrimSpace(line[1:]), 10, 64)
}

// judgeGroups compares the state of the keys with the records of the clients.
func judgeGroups(addr string, specs []string, records []clientRecord, b *board) error {
	var all clientRecord
	fewest := records[0].calls
	for _, m := range records {
		all.err = errors.Join(all.err, m.err)
		all.calls += m.calls
		all.refused += m.refused
		all.longest = max(all.longest, m.longest)
		fewest = min(fewest, m.calls)
		for key, n := range m.charged {
			all.charged[key] += n
		}
	}
	if all.err != nil {
		return all.err
	}
	wrong, err := wrongCharges(addr, specs, all.charged)
	if err != nil {
		return err
	}
	b.note("%d clients, %d keys, groups of 1 to %d: %d calls, %d refused", len(records), groupKeys, groupMost, all.calls, all.refused)
	b.atMost("keys whose charges differ from the replies", float64(wrong), 0, "")
	b.atLeast("fewest calls of a client, ratio to the mean", float64(fewest*len(records))/float64(all.calls), 0.5, "x")
	b.atMost("longest wait for a reply", all.longest.Seconds(), groupWait.Seconds(), "s")
	if all.refused < all.calls/20 || all.refused > all.calls*19/20 {
		return errors.New("almost no group was refused, or almost none admitted: the result is not meaningful")
	}
	return nil
}

// wrongCharges counts the keys whose used units differ from the charges.
func wrongCharges(addr string, specs []string, charged [groupKeys]int64) (wrong int, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	keys := make([]int, groupKeys)
	for i := range keys {
		keys[i] = i
	}
	decisions, err := askGroup(c, bufio.NewReader(c), specs, keys, 0)
	if err != nil {
		return 0, err
	}
	for key, d := range decisions[1:] {
		if used := d[1] - d[2]; used != charged[key] {
			wrong++
		}
	}
	return wrong, nil
}
