package main

import (
	"errors"
	"fmt"
)

var errLast = errors.New("the last command of a write failed")

// closed sends batches of requests on one connection until the round ends. It sends each
// batch after all replies to the previous one.
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

// answersWithLast is like answers, for a write that ends with an additional, uncounted
// command. The latency of the n requests ends with the reply to that command.
func (r *round) answersWithLast(l *link, n int, count bool) (now int64, err error) {
	sent := r.now()
	if err := l.write(r, sent); err != nil {
		return sent, err
	}
	var all counts
	for now = sent; ; {
		if err := l.expect(r, now); err != nil {
			return now, err
		}
		if err := l.read(); err != nil {
			return now, err
		}
		now = r.now()
		c, err := l.take(n, count)
		if err != nil {
			return now, err
		}
		all.add(c)
		if n -= int(c.total()); n > 0 {
			continue
		}
		if c, err = l.take(1, false); err != nil {
			return now, err
		}
		if c.failed > 0 {
			return now, fmt.Errorf("%w: %s", errLast, l.scanner.text)
		}
		if c.total() == 0 {
			continue
		}
		if count {
			l.journal.add(now, now-sent, all)
		}
		return now, nil
	}
}

// answers writes l.out, which contains n requests, and reads the replies to them.
func (r *round) answers(l *link, n int, count bool) (now int64, err error) {
	sent := r.now()
	if err := l.write(r, sent); err != nil {
		return sent, err
	}
	for now = sent; n > 0; {
		if err := l.expect(r, now); err != nil {
			return now, err
		}
		if err := l.read(); err != nil {
			return now, err
		}
		now = r.now()
		c, err := l.take(n, count)
		if err != nil {
			return now, err
		}
		n -= int(c.total())
		if count {
			l.journal.add(now, now-sent, c)
		}
	}
	if l.start < l.end {
		return now, errExtra
	}
	return now, nil
}

// claim reserves up to one batch of the requests that the round may still send, and
// reports whether they are counted. During the warm-up requests are neither counted nor limited.
func (r *round) claim(now int64) (n int, count bool) {
	if r.requests == 0 || !r.counted(now) {
		return r.depth, r.counted(now)
	}
	left := r.requests - r.claimed.Add(int64(r.depth)) + int64(r.depth)
	return int(min(max(left, 0), int64(r.depth))), true
}
