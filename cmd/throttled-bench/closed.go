package main

import (
	"errors"
	"fmt"
)

var errLast = errors.New("the last command of a write failed")

// closed sends batches of requests on one connection until the round ends. It sends a batch
// after it has received all replies to the previous batch.
func (r *round) closed(l *link) error {
	for now := r.now(); !r.over(now); {
		n, count := r.claim(now)
		if n == 0 {
			break
		}
		var err error
		if now, err = r.exchange(l, n, count); err != nil {
			return err
		}
	}
	return nil
}

// exchange sends n requests, reads the replies and returns the time of the last reply.
func (r *round) exchange(l *link, n int, count bool) (now int64, err error) {
	l.out = l.source.append(l.out[:0], n)
	if last := l.source.last; last != nil {
		l.out = last.append(l.out, 0, 0, 0)
		return r.answersWithLast(l, n, count)
	}
	return r.answers(l, n, count)
}

// answers writes l.out, which must contain n requests, and reads the replies to them. If
// count is true, it adds the replies to the journal.
func (r *round) answers(l *link, n int, count bool) (now int64, err error) {
	sent := r.now()
	if err := l.write(r, sent); err != nil {
		return sent, err
	}
	var c counts
	for now = sent; n > 0; n -= int(c.total()) {
		if now, c, err = r.receive(l, now, n, count); err != nil {
			return now, err
		}
		if count {
			l.journal.add(now, now-sent, c)
		}
	}
	return now, l.finished()
}

// answersWithLast is like answers, but the write ends with the command of -last, which is
// not counted. The latency of the n requests is measured until the reply to this
// command arrives.
func (r *round) answersWithLast(l *link, n int, count bool) (now int64, err error) {
	sent := r.now()
	if err := l.write(r, sent); err != nil {
		return sent, err
	}
	var all, c, last counts
	for now = sent; last.total() == 0; {
		if now, c, err = r.receive(l, now, n, count); err != nil {
			return now, err
		}
		all.add(c)
		if n -= int(c.total()); n > 0 {
			continue
		}
		if last, err = l.take(1, false); err != nil {
			return now, err
		}
	}
	if last.failed > 0 {
		return now, fmt.Errorf("%w: %s", errLast, l.scanner.text)
	}
	if count {
		l.journal.add(now, now-sent, all)
	}
	return now, l.finished()
}

// receive reads once and processes up to n replies. The timeout of the read starts at the
// time in the argument from: the time of the write or of the previous read. receive returns the
// time of the read.
func (r *round) receive(l *link, from int64, n int, count bool) (now int64, c counts, err error) {
	if err := l.expect(r, from); err != nil {
		return from, c, err
	}
	if err := l.read(); err != nil {
		return from, c, err
	}
	now = r.now()
	c, err = l.take(n, count)
	return now, c, err
}

// claim reserves up to one batch of the requests that the round may still send, and
// reports whether they are counted. During the warm-up, requests are not counted and their
// number is not limited.
func (r *round) claim(now int64) (n int, count bool) {
	if r.requests == 0 || !r.counted(now) {
		return r.depth, r.counted(now)
	}
	left := r.requests - r.claimed.Add(int64(r.depth)) + int64(r.depth)
	return int(min(max(left, 0), int64(r.depth))), true
}
