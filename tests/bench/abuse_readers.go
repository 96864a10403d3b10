package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	readers         = 100
	readerBuffer    = 1 << 20  // bytes, bar for one client
	strangerBuffer  = 16 << 10 // bytes, bar for a client that has not logged in
	readerBytes     = 4 << 10  // bytes of the receive buffer of the client: otherwise its kernel continues to receive
	readerProgress  = 16 << 10 // bytes of a write
	deepCommands    = 1_000_000
	deepMemory      = 4 << 20 // bytes
	deepP99         = 5.0
	abusePassword   = "secret"
	buffersInterval = 100 * time.Millisecond
)

// neverReaders sends commands over connections that read no reply.
func (a *abuser) neverReaders() error {
	return a.withVictim([]string{"--client-reply-buffer-limit", "256kb"}, func(v *victim) error {
		return a.unread(v, strings.Repeat("CL.THROTTLE k 15 30 60\r\n", deepCommands/1000), readerBuffer)
	})
}

// strangersThatNeverRead is like neverReaders. The clients have not logged in.
func (a *abuser) strangersThatNeverRead() error {
	return a.withVictim(nil, func(v *victim) error {
		if err := v.setPassword(abusePassword); err != nil {
			return err
		}
		return a.unread(v, strings.Repeat("PING\r\n", deepCommands/1000), strangerBuffer)
	})
}

// unread measures other clients, the replies that the server keeps for a client that does not read, and the time until it
// closes the connection.
func (a *abuser) unread(v *victim, commands string, bar float64) error {
	err := a.beside(v, abuseP99, func(stop <-chan struct{}) error {
		return together(readers, func(i int) error { _, err := neverRead(v.addr, i, commands, stop); return err })
	})
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	timer := time.AfterFunc(2*watchTimeout, func() { close(stop) })
	defer timer.Stop()
	largest, err := v.sampleReplies()
	if err != nil {
		return err
	}
	var longest atomic.Int64
	err = together(readers, func(i int) error {
		stalled, err := neverRead(v.addr, i, commands, stop)
		raise(&longest, int64(stalled))
		return err
	})
	buffered, sampleErr := largest()
	a.atMost("time until closed, from the stall, longest", time.Duration(longest.Load()).Seconds(), timeoutBar, "s")
	a.atMost("unsent replies of a client, largest", float64(buffered)/1024, bar/1024, "KiB")
	return errors.Join(err, sampleErr)
}

// neverRead sends commands until the server closes the connection. It returns the time from the last byte that could be
// written until then.
func neverRead(addr string, i int, commands string, stop <-chan struct{}) (stalled time.Duration, err error) {
	c, err := dialFrom(i%churnSources, addr)
	if err != nil {
		return 0, err
	}
	if err := c.(*net.TCPConn).SetReadBuffer(readerBytes); err != nil {
		return 0, errors.Join(err, c.Close())
	}
	closed := make(chan struct{})
	go func() { // unblocks the write
		select {
		case <-stop:
		case <-closed:
		}
		_ = c.Close()
	}()
	defer close(closed)
	progress := time.Now()
	for rest := commands; ; {
		if rest == "" {
			rest = commands
		}
		n, err := io.WriteString(c, rest[:min(len(rest), readerProgress)])
		if err != nil {
			return time.Since(progress), nil // closed by the server, or by stop
		}
		progress, rest = time.Now(), rest[n:]
	}
}

// sampleReplies samples the unsent replies of all clients until the returned function is called, which returns the largest
// size for one client, in bytes.
func (v *victim) sampleReplies() (largest func() (int64, error), err error) {
	c, err := v.login()
	if err != nil {
		return nil, err
	}
	var most int64
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil && pause(stop, buffersInterval) {
			var text string
			text, err = c.ask("CLIENT LIST")
			most = max(most, largestUnsent(text))
		}
		done <- err
	}()
	return func() (int64, error) {
		close(stop)
		err := errors.Join(<-done, c.Close())
		return most, err
	}, nil
}

// unsentFields are the fields of CLIENT LIST with the sizes of unsent replies, in bytes.
var unsentFields = []string{"rbs", "omem"}

// largestUnsent returns the largest sum of unsentFields of a client in CLIENT LIST.
func largestUnsent(list string) (most int64) {
	for line := range strings.Lines(list) {
		sum := int64(0)
		for word := range strings.FieldsSeq(line) {
			name, text, _ := strings.Cut(word, "=")
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && slices.Contains(unsentFields, name) {
				sum += n
			}
		}
		most = max(most, sum)
	}
	return most
}

// deepPipeline sends a million commands in one write, reads the replies, and compares them with those expected.
func (a *abuser) deepPipeline() error {
	var commands, replies bytes.Buffer
	for i := range deepCommands {
		fmt.Fprintf(&commands, "*2\r\n$4\r\nECHO\r\n$8\r\n%08d\r\n", i)
		fmt.Fprintf(&replies, "$8\r\n%08d\r\n", i)
	}
	return a.withVictim(nil, func(v *victim) error {
		var pipelines atomic.Int64
		err := a.beside(v, deepP99, func(stop <-chan struct{}) error {
			for pause(stop, 0) {
				if err := pipeline(v.addr, commands.Bytes(), replies.Bytes()); err != nil {
					return err
				}
				pipelines.Add(1)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if _, err := v.command("MEMORY PURGE"); err != nil {
			return err
		}
		before, err := residentBytes(v.pid())
		if err != nil {
			return err
		}
		most := sampleResident(v.pid())
		err = pipeline(v.addr, commands.Bytes(), replies.Bytes())
		a.note("%d pipelines of %d bytes with the right replies in order", pipelines.Load()+1, commands.Len())
		a.atMost("RSS of a pipeline", mib(most()-before), mib(deepMemory), "MiB")
		return err
	})
}

// pipeline sends commands in one write while it reads the replies.
func pipeline(addr string, commands, replies []byte) error {
	c, err := dialFrom(0, addr)
	if err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() {
		_, err := c.Write(commands)
		written <- err
	}()
	err = compareAll(c, replies)
	return errors.Join(err, c.Close(), <-written)
}

// compareAll reads a text and compares it with want.
func compareAll(r io.Reader, want []byte) error {
	buf := make([]byte, 64<<10)
	for len(want) > 0 {
		n, err := r.Read(buf[:min(len(buf), len(want))])
		if err != nil {
			return err
		}
		if !bytes.Equal(buf[:n], want[:n]) {
			return fmt.Errorf("the replies are %.40q, want %.40q", buf[:n], want[:n])
		}
		want = want[n:]
	}
	return nil
}
