package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

const (
	webConns      = 1_000
	webSlow       = 100
	webHeader     = 1 << 20   // bytes
	webBody       = 100 << 20 // bytes
	webMemory     = 64 << 20  // bytes of RSS, more than before
	webTimeoutBar = 5.5       // s: a timeout of 5 s, on a busy machine
	webHostileFor = loadTime + time.Second
)

// httpPort measures other clients beside silent connections and hostile requests to the HTTP and gRPC ports. Then it checks
// the limits of requests.
func (a *abuser) httpPort() (err error) {
	dir, err := os.MkdirTemp("", "throttled-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	hostile := filepath.Join(dir, "hostile")
	if err := buildHostile(hostile); err != nil {
		return err
	}
	addrs, err := freeAddrs(1)
	if err != nil {
		return err
	}
	return a.withVictim([]string{"--grpc-port", portOf(addrs[0])}, func(v *victim) error {
		most := sampleResident(v.pid())
		err := a.beside(v, abuseP99, func(stop <-chan struct{}) error {
			h := exec.Command(hostile, "-http", v.web, "-grpc", addrs[0], "-rate", fmt.Sprint(attackRate), "-for", webHostileFor.String())
			if err := h.Start(); err != nil {
				return err
			}
			return errors.Join(holdSilent(v.web, webConns, stop), h.Wait())
		})
		err = errors.Join(err, a.slowHeaders(v), a.largeRequests(v))
		a.atMost("RSS, more than before", mib(most()-v.base.rss), mib(webMemory), "MiB")
		return err
	})
}

// holdSilent keeps n connections open that send nothing.
func holdSilent(addr string, n int, stop <-chan struct{}) error {
	return together(n, func(i int) error {
		c, err := dialFrom(i%churnSources, addr)
		if err != nil {
			return err
		}
		<-stop
		return c.Close()
	})
}

// slowHeaders sends requests whose headers are never complete.
func (a *abuser) slowHeaders(v *victim) error {
	stop := make(chan struct{})
	timer := time.AfterFunc(watchTimeout, func() { close(stop) })
	defer timer.Stop()
	var longest atomic.Int64
	err := together(webSlow, func(i int) error {
		took, err := drip(v.web, i, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 1000), stop)
		raise(&longest, int64(took))
		return err
	})
	a.atMost("time until slow headers are refused", time.Duration(longest.Load()).Seconds(), webTimeoutBar, "s")
	return err
}

// largeRequests sends requests that are too large, of another protocol, or to endpoints that do not exist, and counts those
// with the wrong status.
func (a *abuser) largeRequests(v *victim) error {
	wrong := 0
	for _, r := range []struct {
		name, text string
		body       int
		want       string
	}{
		{"a header of 1 MB", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", webHeader) + "\r\n\r\n", 0, "HTTP/1.1 431"},
		{"a body of 100 MB", fmt.Sprintf("POST /v1/throttle HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", webBody), webBody, "HTTP/1.1 413"},
		{"profiles", "GET /debug/pprof/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 0, "HTTP/1.1 404"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", 0, "HTTP/1.1 "},
	} {
		got, err := requestText(v.web, r.text, r.body)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		if !strings.HasPrefix(got, r.want) {
			a.note("%s: the response is %.60q, want %s", r.name, got, r.want)
			wrong++
		}
	}
	a.atMost("responses that are wrong", float64(wrong), 0, "")
	return nil
}

// requestText sends a request with a body of zeros, and returns the beginning of the response. If the server has closed the
// connection without a response, the result is empty.
func requestText(addr, text string, body int) (string, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	_ = c.SetDeadline(time.Now().Add(replyPatience))
	written := make(chan struct{})
	go func() { // the server may close the connection before it has read everything
		defer close(written)
		_, err := c.Write([]byte(text))
		for zeros := make([]byte, 64<<10); err == nil && body > 0; body -= len(zeros) {
			_, err = c.Write(zeros)
		}
	}()
	response := make([]byte, 512)
	n, _ := c.Read(response) // 0 bytes if the connection is closed
	err = c.Close()
	<-written
	return string(bytes.TrimRight(response[:n], "\x00")), err
}
