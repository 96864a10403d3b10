package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	strangers    = 18_000 // silent connections; the server accepts 10,000
	slowestLogin = 2 * time.Second
	guessesFor   = 5 * time.Second
	mostGuesses  = 20 + 2 // passwords that a server with default settings checks in the time guessesFor
	clientMemory = 256    // MiB of maxmemory-clients, its default
	besideAll    = 64     // MiB that a server without keys may use besides clientMemory
	floodLasts   = 8 * time.Second
	bigArgument  = 500_000
	deepPipeline = 300_000
)

// clientFlood is a set of connections that make the server use as much memory as it permits. The
// connections read nothing.
type clientFlood struct {
	name  string
	conns int
	first string // sent once on each connection
	again string // sent repeatedly after first
	show  string // sent repeatedly on a separate connection
}

// manyFloods lists the floods, one for each kind of memory that clients can make the
// server use.
var manyFloods = []clientFlood{
	{name: "incomplete commands", conns: 1500, first: "*3\r\n$4\r\nECHO\r\n" + strings.Repeat("$400000\r\n"+strings.Repeat("x", 400_000)+"\r\n", 2)[:800_000]},
	{name: "MONITOR clients that do not read", conns: 50, first: "MONITOR\r\n", show: array("ECHO", strings.Repeat("x", 100_000))},
	{name: "transactions of 1 MB", conns: 1500, first: "MULTI\r\n" + array("EXISTS", strings.Repeat("k", bigArgument)) + array("EXISTS", strings.Repeat("k", bigArgument))},
	{name: "300,000 pipelined commands", conns: 30, first: strings.Repeat("CL.THROTTLE k 15 30 60\r\n", deepPipeline)},
	{name: "long replies", conns: 400, again: strings.Repeat(array("ECHO", strings.Repeat("x", 100_000)), 20)},
	{name: "COMMAND DOCS", conns: 400, again: strings.Repeat("COMMAND DOCS\r\n", 100)},
	{name: "CLIENT LIST", conns: 1500, again: strings.Repeat("CLIENT LIST\r\n", 20)},
	{name: "subscriptions", conns: 1500, first: subscriptions("SUBSCRIBE") + subscriptions("PSUBSCRIBE")},
}

func array(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// subscriptions returns commands that subscribe to the maximum number of channels per connection. The names
// have 1024 bytes.
func subscriptions(name string) string {
	var b strings.Builder
	for i := range 1024 {
		b.WriteString(array(name, fmt.Sprintf("%01024d", i)))
	}
	return b.String()
}

// clientFloods compares the memory used during each flood with the limit for all clients.
func clientFloods(_ settings, b *board) error {
	for _, f := range manyFloods {
		if err := withServer(nil, func(p *process) error { return f.run(p, b) }); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return errors.Join(
		withServer(nil, func(p *process) error { return deepPipelines(p, b) }),
		withServer([]string{"--requirepass", "secret"}, func(p *process) error { return silentStrangers(p, b) }),
		withServer([]string{"--requirepass", "secret"}, func(p *process) error { return guessing(p, b, 1) }))
}

// run floods a server, and prints the largest RSS and the longest time that a new connection and
// the reply to its PING took.
func (f *clientFlood) run(p *process, b *board) error {
	stop := make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	var closing sync.Once
	end := func() { closing.Do(func() { close(stop) }) }
	defer end()
	for i := range f.conns {
		running.Go(func() { f.hold(p.addr, i, stop) })
	}
	if f.show != "" {
		running.Go(func() { repeat(p.addr, f.show, stop) })
	}
	most, longest, err := watch(p, floodLasts)
	if err != nil {
		return err
	}
	end()
	running.Wait()
	b.note("%s: connecting and PING took at most %v; %s", f.name, longest.Round(time.Millisecond),
		statistics(p.addr, "evicted_clients", "timed_out_connections", "total_connections_received"))
	b.atMost(f.name+": RSS", mib(most), besideAll+clientMemory, "MiB")
	return nil
}

// hold keeps one connection of the flood open, and replaces it when it is closed.
func (f *clientFlood) hold(addr string, i int, stop <-chan struct{}) {
	for {
		if c, err := dialFrom(i/perLoopback, addr); err == nil {
			written := make(chan struct{})
			go func() {
				defer close(written)
				f.write(c, stop)
			}()
			select {
			case <-stop:
			case <-written:
			}
			_ = c.Close()
			<-written
		}
		if !pause(stop, 50*time.Millisecond) {
			return
		}
	}
}

// write sends the bytes of a flood until the server closes the connection. After the last byte
// it sends empty lines, which the server ignores, to detect that the connection is closed.
func (f *clientFlood) write(c net.Conn, stop <-chan struct{}) {
	_, err := io.WriteString(c, f.first)
	for err == nil && f.again != "" {
		_, err = io.WriteString(c, f.again)
	}
	for err == nil && pause(stop, 100*time.Millisecond) {
		_, err = io.WriteString(c, "\r\n")
	}
}

// pause sleeps for d. It returns false if stop is closed earlier.
func pause(stop <-chan struct{}, d time.Duration) bool {
	select {
	case <-stop:
		return false
	case <-time.After(d):
		return true
	}
}

// repeat sends a command repeatedly and discards the replies.
func repeat(addr, call string, stop <-chan struct{}) {
	c, err := dialFrom(9, addr)
	if err != nil {
		return
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
	go func() {
		<-stop
		_ = c.Close()
	}()
	for err == nil {
		_, err = io.WriteString(c, call)
	}
}

// watch samples the memory of a server, and sends PINGs over new connections. It returns the largest
// RSS, and the longest time that a connection and its PING took.
func watch(p *process, lasting time.Duration) (most int64, longest time.Duration, err error) {
	sampled := sampleResident(p.pid())
	defer func() { most = sampled() }()
	// The sleep is the sampling interval: without it, the samples themselves would be a
	// load.
	for end := time.Now().Add(lasting); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		begin := time.Now()
		if err := once(p.addr, "PING\r\n", "+PONG\r\n"); err != nil {
			return 0, 0, fmt.Errorf("another client: %w", err)
		}
		longest = max(longest, time.Since(begin))
	}
	return 0, longest, nil
}

// sampleResident samples the RSS of a process until the returned function is called, which returns the largest one.
func sampleResident(pid int) (most func() int64) {
	var largest int64
	var sampling sync.WaitGroup
	stop := make(chan struct{})
	sampling.Go(func() {
		for pause(stop, 10*time.Millisecond) {
			rss, _ := residentBytes(pid) // 0 if the process has exited
			largest = max(largest, rss)
		}
	})
	return func() int64 {
		close(stop)
		sampling.Wait()
		return largest
	}
}

// once opens a connection, sends call, and compares the reply with want.
func once(addr, call, want string) error {
	c, err := dialFrom(8, addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return exchange(c, call, want)
}

// statistics returns the named fields of INFO stats as text.
func statistics(addr string, names ...string) string {
	c, err := dialFrom(8, addr)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c, "INFO stats\r\nQUIT\r\n")
	_ = c.SetReadDeadline(time.Now().Add(replyPatience))
	text, _ := io.ReadAll(c)
	var found []string
	for line := range bytes.Lines(text) {
		name, _, _ := strings.Cut(string(line), ":")
		for _, n := range names {
			if n == name {
				found = append(found, strings.TrimSpace(string(line)))
			}
		}
	}
	return strings.Join(found, ", ")
}

// deepPipelines sends a very large number of commands before it reads the first reply, and
// then reads all replies.
func deepPipelines(p *process, b *board) error {
	c, err := dialFrom(0, p.addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	begin := time.Now()
	_ = c.SetDeadline(begin.Add(replyPatience))
	if _, err := io.WriteString(c, strings.Repeat("CL.THROTTLE k 15 30 60\r\n", deepPipeline)); err != nil {
		return fmt.Errorf("send %d commands without reading replies: %w", deepPipeline, err)
	}
	if _, err := io.WriteString(c, "QUIT\r\n"); err != nil {
		return err
	}
	replies, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	b.note("a pipeline of %d commands took %v", deepPipeline, time.Since(begin).Round(time.Millisecond))
	b.atLeast("replies to that pipeline", float64(bytes.Count(replies, []byte("*5\r\n"))), deepPipeline, "")
	return nil
}

// silentStrangers opens more connections than the server accepts, from several addresses,
// and periodically logs in from a different address.
func silentStrangers(p *process, b *board) error {
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	longest := time.Duration(0)
	for i := range strangers {
		c, err := dialFrom(i%4, p.addr)
		if err != nil {
			return err
		}
		held = append(held, c)
		if i%100 > 0 {
			continue
		}
		begin := time.Now()
		if err := once(p.addr, "AUTH secret\r\nPING\r\n", "+OK\r\n+PONG\r\n"); err != nil {
			return fmt.Errorf("login with %d silent connections: %w", i, err)
		}
		longest = max(longest, time.Since(begin))
	}
	b.atMost("longest login with silent connections", longest.Seconds()*1000, slowestLogin.Seconds()*1000, "ms")
	return nil
}

// guessing tries wrong passwords over new connections, as fast as possible, on n connections at a time.
func guessing(p *process, b *board, n int) error {
	var checked, tried atomic.Int64
	end := time.Now().Add(guessesFor)
	err := together(n, func(int) error {
		for time.Now().Before(end) {
			if err := guess(p.addr, &checked); err != nil {
				return err
			}
			tried.Add(1)
		}
		return nil
	})
	b.note("%d passwords tried in %v", tried.Load(), guessesFor)
	b.atMost("passwords checked", float64(checked.Load()), mostGuesses, "")
	return err
}

// guess tries a wrong password over a new connection, and counts it if the server has checked it.
func guess(addr string, checked *atomic.Int64) error {
	c, err := dialFrom(0, addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "AUTH guess\r\n"); err != nil {
		return err
	}
	_, err = readReply(bufio.NewReader(c))
	switch {
	case err == nil:
		return errors.New("a wrong password was accepted")
	case strings.HasPrefix(err.Error(), "WRONGPASS"):
		checked.Add(1)
	case !strings.HasPrefix(err.Error(), "ERR too many wrong passwords"):
		return fmt.Errorf("unexpected reply to a wrong password: %w", err)
	}
	return nil
}
