package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Bars for the resources of a server after an abuse, more than before it.
const (
	growthWithin   = 5 * time.Second // time until files are closed and goroutines have exited
	moreFiles      = 10
	moreGoroutines = 10
	moreResident   = 16 << 20 // bytes of RSS after MEMORY PURGE
	idleResident   = 32 << 20 // the same after 10,000 connections: the Go runtime keeps the memory of their goroutines for further ones
)

// loadConns is the number of connections of openLoop.
const loadConns = 8

// victim is a server under abuse, with the resources that it used before.
type victim struct {
	*process
	web      string // address of the HTTP server, which serves the metrics
	password string
	base     footprint
	kept     int64 // bar for the growth of the RSS, in bytes
	perSec   int   // requests per second of other clients
}

// footprint is the use of resources by a process.
type footprint struct {
	rss               int64 // bytes
	files, goroutines int
}

// withVictim starts a server, calls use, and compares the resources afterwards with those before it. The server has served
// other clients before.
func (a *abuser) withVictim(args []string, use func(v *victim) error) error {
	return a.withVictimOf(func(more ...string) (*process, error) { return a.start(append(more, args...)...) }, use)
}

// withVictimOf is like withVictim, for a server that start starts.
func (a *abuser) withVictimOf(start func(args ...string) (*process, error), use func(v *victim) error) error {
	addrs, err := freeAddrs(1)
	if err != nil {
		return err
	}
	p, err := start("--http-port", portOf(addrs[0]))
	if err != nil {
		return err
	}
	v := &victim{process: p, web: addrs[0], kept: moreResident, perSec: loadPerSec}
	if err = a.prepare(v); err == nil {
		err = use(v)
	}
	if err == nil {
		err = a.growth(v)
	}
	return errors.Join(err, p.stop())
}

// prepare creates the keys of other clients, serves them for a while, and measures the resources.
func (a *abuser) prepare(v *victim) error {
	if err := fillAll(v.addr, keyspace{"m:", 16, 0, loadKeys}, roomy); err != nil {
		return err
	}
	if _, err := a.others(v, loadTime); err != nil {
		return err
	}
	var err error
	v.base, err = v.footprint()
	return err
}

// growth compares the resources of a server with those before the abuse.
func (a *abuser) growth(v *victim) error {
	now, err := v.settled()
	if err != nil {
		return err
	}
	a.atMost("afterwards: more open files", float64(now.files-v.base.files), moreFiles, "")
	a.atMost("afterwards: more goroutines", float64(now.goroutines-v.base.goroutines), moreGoroutines, "")
	a.atMost("afterwards: more RSS", mib(now.rss-v.base.rss), mib(v.kept), "MiB")
	return nil
}

// settled waits until the server has released its resources, at most growthWithin, and returns them.
func (v *victim) settled() (now footprint, err error) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(growthWithin); ; <-ticker.C {
		now, err = v.footprint()
		if err != nil || time.Now().After(end) || now.files <= v.base.files+moreFiles && now.goroutines <= v.base.goroutines+moreGoroutines {
			return now, err
		}
	}
}

// footprint measures the resources of a server, after it has returned unused memory to the system.
func (v *victim) footprint() (f footprint, err error) {
	if _, err := v.command("MEMORY PURGE"); err != nil {
		return f, err
	}
	var errs [3]error
	f.rss, errs[0] = residentBytes(v.pid())
	f.files, errs[1] = openFiles(v.pid())
	f.goroutines, errs[2] = v.goroutines()
	return f, errors.Join(errs[:]...)
}

// openFiles returns the number of file descriptors of a process.
func openFiles(pid int) (int, error) {
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(list), err
}

// goroutines returns the number of goroutines according to the metrics of a server.
func (v *victim) goroutines() (int, error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+v.web+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	request.Close = true
	request.Header.Set("X-Throttled-Token", v.password)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if n, found := strings.CutPrefix(line, "go_goroutines "); found {
			return strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return 0, fmt.Errorf("%s: no go_goroutines in %.100q", response.Status, text)
}

// target returns the target of the load generator.
func (v *victim) target() string {
	if v.password == "" {
		return v.addr
	}
	return "redis://:" + v.password + "@" + v.addr
}

// command is like the function command, and logs in first if the server has a password.
func (v *victim) command(text string) (string, error) {
	c, err := v.login()
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	return c.ask(text)
}

// login connects to a server, and logs in if it has a password.
func (v *victim) login() (c *asker, err error) {
	conn, err := net.Dial("tcp", v.addr)
	if err != nil {
		return nil, err
	}
	c = &asker{conn, bufio.NewReader(conn)}
	if v.password == "" {
		return c, nil
	}
	if _, err := c.ask("AUTH " + v.password); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// asker is a connection for commands and their replies.
type asker struct {
	net.Conn
	replies *bufio.Reader
}

// ask sends an inline command and returns the reply, see readReply.
func (c *asker) ask(text string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(replyPatience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, text+"\r\n"); err != nil {
		return "", err
	}
	return readReply(c.replies)
}

// setPassword makes the server require a password from now on.
func (v *victim) setPassword(password string) error {
	_, err := v.command("CONFIG SET requirepass " + password)
	v.password = password
	return err
}

// info returns a number of INFO.
func (v *victim) info(section, name string) (int, error) {
	text, err := v.command("INFO " + section)
	if err != nil {
		return 0, err
	}
	return infoInt(text, name)
}

// arrivals returns a function that waits until n more clients have connected.
func (v *victim) arrivals() (await func(n int) error, err error) {
	const name = "total_connections_received"
	before, err := v.info("stats", name)
	return func(n int) error {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		end := time.Now().Add(replyPatience)
		for asked := 1; ; asked++ { // each question is a connection, too
			now, err := v.info("stats", name)
			if err != nil || now-before-asked >= n {
				return err
			}
			if time.Now().After(end) {
				return fmt.Errorf("fewer than %d clients have connected", n)
			}
			<-ticker.C
		}
	}, err
}

// awaitActive waits until n clients have sent CL.THROTTLE. Clients that have not sent a command can be displaced.
func (v *victim) awaitActive(n int) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(replyPatience); time.Now().Before(end); <-ticker.C {
		list, err := v.command("CLIENT LIST")
		if err != nil || strings.Count(list, " cmd=cl.throttle ") >= n {
			return err
		}
	}
	return fmt.Errorf("fewer than %d clients have sent CL.THROTTLE", n)
}
