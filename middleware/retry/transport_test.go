package retry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a server whose responses are in a list. The last one is repeated.
type scripted struct {
	statuses []int
	header   http.Header

	at     []time.Duration // times of the requests since the first one
	began  time.Time
	sent   []string // bodies of the requests
	bodies []*body
}

// body is the body of a response that records its use.
type body struct {
	io.Reader
	drained, closed bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.drained = b.drained || err == io.EOF
	return n, err
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

// RoundTrip implements http.RoundTripper.
func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(s.at) == 0 {
		s.began = time.Now()
	}
	status := s.statuses[min(len(s.at), len(s.statuses)-1)]
	s.at = append(s.at, time.Since(s.began))
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err := errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
		s.sent = append(s.sent, string(text))
	}
	if status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	b := &body{Reader: strings.NewReader("limited")}
	s.bodies = append(s.bodies, b)
	return &http.Response{StatusCode: status, Header: s.header, Body: b, Request: r}, nil
}

// longest makes each random delay the longest one.
func longest(n time.Duration) time.Duration { return n - 1 }

func newRequest(t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://limited.example/", body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRoundTrip_Repeats(t *testing.T) {
	unknown := func() io.Reader { return io.MultiReader(strings.NewReader("hello")) } // a body without GetBody
	for _, c := range []struct {
		name     string
		method   string
		body     io.Reader
		header   string // of the request
		statuses []int
		want     int // requests sent
	}{
		{"success", "GET", nil, "", []int{200}, 1},
		{"429, then success", "GET", nil, "", []int{429, 429, 200}, 3},
		{"503, then success", "GET", nil, "", []int{503, 200}, 2},
		{"attempts are bounded", "GET", nil, "", []int{429}, 4},
		{"another status", "GET", nil, "", []int{500}, 1},
		{"an error", "GET", nil, "", []int{0}, 1},
		{"429, then an error", "GET", nil, "", []int{429, 0}, 2},
		{"POST was not processed", "POST", strings.NewReader("hello"), "", []int{429, 200}, 2},
		{"POST was possibly processed", "POST", strings.NewReader("hello"), "", []int{503}, 1},
		{"POST with an idempotency key", "POST", strings.NewReader("hello"), "Idempotency-Key", []int{503, 200}, 2},
		{"PUT", "PUT", bytes.NewReader([]byte("hello")), "", []int{503, 200}, 2},
		{"a body that cannot be sent again", "PUT", unknown(), "", []int{429}, 1},
		{"no body", "POST", http.NoBody, "", []int{429, 200}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{statuses: c.statuses, header: http.Header{}}
				r := newRequest(t, c.method, c.body)
				if c.header != "" {
					r.Header.Set(c.header, "1")
				}
				response, err := (&Transport{Base: server, random: longest}).RoundTrip(r)
				last := c.statuses[min(c.want, len(c.statuses))-1]
				if len(server.at) != c.want || (err != nil) != (last == 0) || err == nil && response.StatusCode != last {
					t.Errorf("%d requests, %v, %v; want %d requests", len(server.at), response, err, c.want)
				}
				if i := slices.IndexFunc(server.sent, func(text string) bool { return text != "hello" && c.body != http.NoBody }); i >= 0 {
					t.Errorf("request %d has the body %q", i, server.sent[i])
				}
				for i, b := range server.bodies {
					if returned := err == nil && i == len(server.bodies)-1; b.closed == returned || b.drained == returned {
						t.Errorf("body of response %d: %+v", i, b)
					}
				}
			})
		})
	}
}

func TestRoundTrip_Delays(t *testing.T) {
	date := func(after time.Duration) string { return time.Now().Add(after).UTC().Format(http.TimeFormat) }
	for _, c := range []struct {
		name   string
		header map[string]string
		want   []time.Duration // times of the requests
	}{
		{"backoff", nil, []time.Duration{0, 250 * time.Millisecond, 750 * time.Millisecond, 1750 * time.Millisecond}},
		{"Retry-After", map[string]string{"Retry-After": "2", "RateLimit": `"a";r=0;t=7`}, []time.Duration{0, 2250 * time.Millisecond, 4750 * time.Millisecond, 7750 * time.Millisecond}},
		{"RateLimit", map[string]string{"RateLimit": `"a";r=5;t=30, "b;,\"";r=0;t=2;pk=:YQ==:, "c";r=0;t=1`}, []time.Duration{0, 2250 * time.Millisecond, 4750 * time.Millisecond, 7750 * time.Millisecond}},
		{"cached", map[string]string{"RateLimit": `"a";r=0;t=2`, "Age": "5"}, []time.Duration{0, 250 * time.Millisecond, 750 * time.Millisecond, 1750 * time.Millisecond}},
		{"malformed", map[string]string{"Retry-After": "-1", "RateLimit": `"a;r=0;t=2`}, []time.Duration{0, 250 * time.Millisecond, 750 * time.Millisecond, 1750 * time.Millisecond}},
		{"too long", map[string]string{"Retry-After": "61"}, []time.Duration{0}},
		{"out of range", map[string]string{"Retry-After": "99999999999999999999"}, []time.Duration{0}},
		{"date", map[string]string{"Retry-After": "date"}, []time.Duration{0, 10*time.Second + 250*time.Millisecond, 10*time.Second + 750*time.Millisecond, 10*time.Second + 1750*time.Millisecond}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{statuses: []int{429}, header: http.Header{}}
				for name, value := range c.header {
					if value == "date" {
						value = date(10 * time.Second)
					}
					server.header.Set(name, value)
				}
				if _, err := (&Transport{Base: server, random: longest}).RoundTrip(newRequest(t, "GET", nil)); err != nil {
					t.Error(err)
				}
				if !slices.Equal(server.at, c.want) {
					t.Errorf("requests at %v, want %v", server.at, c.want)
				}
			})
		})
	}
}

func TestRoundTrip_Context(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &scripted{statuses: []int{429}, header: http.Header{"Retry-After": {"10"}}}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		response, err := (&Transport{Base: server}).RoundTrip(newRequest(t, "GET", nil).WithContext(ctx))
		if err != nil || response.StatusCode != 429 || time.Since(began) != 0 || server.bodies[0].closed {
			t.Errorf("deadline before the delay: %v, %v after %v", response, err, time.Since(began))
		}
		canceled, cancelNow := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancelNow)
		_, err = (&Transport{Base: server}).RoundTrip(newRequest(t, "PUT", strings.NewReader("x")).WithContext(canceled))
		if !errors.Is(err, context.Canceled) || time.Since(began) != time.Second || !server.bodies[1].closed {
			t.Errorf("canceled: %v after %v", err, time.Since(began))
		}
	})
}

func TestRoundTrip_BodyFails(t *testing.T) {
	server := &scripted{statuses: []int{429}, header: http.Header{}}
	r := newRequest(t, "PUT", strings.NewReader("x"))
	broken := errors.New("file removed")
	r.GetBody = func() (io.ReadCloser, error) { return nil, broken }
	if _, err := (&Transport{Base: server}).RoundTrip(r); !errors.Is(err, broken) || !server.bodies[0].closed {
		t.Errorf("got %v", err)
	}
}

// TestDelay_Property checks that each delay is at least the demanded one and at most the backoff longer, and that the delays
// are spread over the whole range.
func TestDelay_Property(t *testing.T) {
	for _, tr := range []*Transport{
		{}, {FirstDelay: time.Nanosecond}, {FirstDelay: time.Minute, MaxDelay: time.Second},
		{FirstDelay: 1 << 61, MaxDelay: math.MaxInt64 - 1},
	} {
		previous := time.Duration(0)
		for sent := 1; sent < 100; sent++ {
			most := tr.backoff(sent)
			if most < previous || most > positive(tr.MaxDelay, 10*time.Second) || most <= 0 {
				t.Fatalf("%+v: backoff %v after %v", tr, most, previous)
			}
			previous = most
			for _, demanded := range []time.Duration{0, time.Second, time.Duration(math.MaxInt64).Truncate(time.Second)} {
				response := &http.Response{Header: http.Header{}}
				if demanded > 0 {
					response.Header.Set("Retry-After", fmt.Sprint(int64(demanded/time.Second)))
				}
				if d := tr.delay(response, sent); d < demanded || d-demanded > most {
					t.Fatalf("%+v: delay %v, demanded %v, backoff %v", tr, d, demanded, most)
				}
			}
		}
	}
	var quarters [4]int
	for range 4000 {
		d := (&Transport{}).delay(&http.Response{Header: http.Header{}}, 1)
		quarters[min(int(4*d/(250*time.Millisecond)), 3)]++
	}
	if slices.Min(quarters[:]) < 500 {
		t.Errorf("the delays are not spread: %v", quarters)
	}
}

// FuzzDemandedDelay checks that no header of a server causes a panic or a negative delay.
func FuzzDemandedDelay(f *testing.F) {
	for _, seed := range [][2]string{{"5", ""}, {"", `"a";r=0;t=5`}, {"Tue, 24 Nov 2026 10:00:00 GMT", ""}, {"", `"a\`}, {"", `;;,;r=0;t=`}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, after, limit string) {
		header := http.Header{"Retry-After": {after}, "Ratelimit": {limit}}
		if d := demandedDelay(header, time.Unix(0, 0)); d < 0 {
			t.Errorf("%q, %q: %v", after, limit, d)
		}
	})
}

// TestTransport_RealServer checks that an http.Client succeeds, and that the connection is used again.
func TestTransport_RealServer(t *testing.T) {
	var addresses []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addresses = append(addresses, r.RemoteAddr)
		text, err := io.ReadAll(r.Body)
		if err != nil || string(text) != "hello" {
			t.Errorf("body %q, %v", text, err)
		}
		if len(addresses) < 3 {
			http.Error(w, "limited", http.StatusTooManyRequests)
		}
	}))
	defer srv.Close()
	client := &http.Client{Transport: &Transport{FirstDelay: time.Millisecond}}
	response, err := client.Post(srv.URL, "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != 200 || len(addresses) != 3 {
		t.Errorf("%d after %d requests, %v", response.StatusCode, len(addresses), err)
	}
	if len(slices.Compact(addresses)) != 1 {
		t.Errorf("the connection was not used again: %q", addresses)
	}
}
