package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
)

const (
	guessers       = 64
	mostPerConn    = 10 // wrong passwords, after which the server closes the connection
	guessesPerConn = 1000
)

// guesses tries passwords over concurrent connections from one address. Then it counts the passwords that a connection can
// try if their number per address is not limited.
func (a *abuser) guesses() error {
	return a.withVictim(nil, func(v *victim) error {
		if err := v.setPassword(abusePassword); err != nil {
			return err
		}
		before, err := v.info("stats", "acl_access_denied_auth")
		if err != nil {
			return err
		}
		if err := guessing(v.process, a.board, guessers); err != nil {
			return err
		}
		after, err := v.info("stats", "acl_access_denied_auth")
		if err != nil {
			return err
		}
		a.note("INFO counts %d wrong passwords", after-before)
		if _, err := v.command("CONFIG SET auth-failures-per-minute 0"); err != nil {
			return err
		}
		var most atomic.Int64
		if err := a.beside(v, abuseP99, func(stop <-chan struct{}) error {
			return together(guessers, func(int) error {
				for pause(stop, 0) {
					n, err := guessUntilClosed(v.addr)
					if err != nil {
						return err
					}
					raise(&most, n)
				}
				return nil
			})
		}); err != nil {
			return err
		}
		a.atMost("wrong passwords of a connection", float64(most.Load()), mostPerConn, "")
		return nil
	})
}

// guessUntilClosed sends wrong passwords over one connection, and returns the number of those that the server has checked
// before it closes the connection.
func guessUntilClosed(addr string) (n int64, err error) {
	c, err := dialFrom(0, addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	replies := bufio.NewReader(c)
	for range guessesPerConn {
		if _, err := io.WriteString(c, "AUTH guess\r\n"); err != nil {
			return n, nil // closed
		}
		_, err := readReply(replies)
		var reply replyError
		switch {
		case err == nil:
			return n, errors.New("a wrong password was accepted")
		case !errors.As(err, &reply):
			return n, nil // closed
		case strings.HasPrefix(err.Error(), "WRONGPASS"):
			n++
		default:
			return n, fmt.Errorf("unexpected reply to a wrong password: %w", err)
		}
	}
	return n, nil
}
