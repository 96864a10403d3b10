package edge

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/edge/decision"
)

const (
	benchCheck = "GET /check/nginx/shop HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Original-Method: GET\r\nX-Original-URI: /bench?q=a\r\nX-Forwarded-Host: www.example.com\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
	benchBody  = `{"domain":"shop","attributes":{"method":"GET","path":"/bench","ip":"192.0.2.1"}}`
	benchPost  = "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 80\r\n\r\n" + benchBody
)

// benchmarkSocket measures requests on one connection each of several goroutines.
func benchmarkSocket(b *testing.B, request string) {
	l := start(b, nil)
	b.SetParallelism(16)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		c := l.dial()
		in := bufio.NewReader(c)
		for pb.Next() {
			if _, err := io.WriteString(c, request); err != nil {
				b.Error(err)
				return
			}
			response, err := http.ReadResponse(in, nil)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, response.Body)
		}
	})
}

func BenchmarkSocket_Check(b *testing.B) { benchmarkSocket(b, benchCheck) }

func BenchmarkSocket_Post(b *testing.B) { benchmarkSocket(b, benchPost) }

// benchmarkHandler measures a handler without net/http.
func benchmarkHandler(b *testing.B, request string) {
	l := start(b, nil)
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request)))
	if err != nil {
		b.Fatal(err)
	}
	content, _ := io.ReadAll(r.Body)
	body := strings.NewReader("")
	r.Body = io.NopCloser(body)
	r = r.WithContext(withConn(r.Context(), &conn{begun: true, peer: loopback, sender: loopback}))
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		body.Reset(string(content))
		w.Body.Reset()
		clear(w.Header())
		l.ServeHTTP(w, r)
	}
	b.StopTimer()
	name := "X-RateLimit-Decision" // not in canonical form
	if got := w.Header()[name]; len(got) != 1 || got[0] != decision.Allow {
		b.Errorf("decision %q, status %d, %s", got, w.Code, w.Body)
	}
}

func BenchmarkHandler_Check(b *testing.B) { benchmarkHandler(b, benchCheck) }

func BenchmarkHandler_Post(b *testing.B) { benchmarkHandler(b, benchPost) }
