package gatewaystests

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// mostReceived is the number of requests that an application records at most.
const mostReceived = 1000

// application is the server behind a gateway. It answers each request with 200, and records it.
type application struct {
	port     int
	mu       sync.Mutex
	received []received
}

// received is a request that has reached the application.
type received struct {
	method, target, body string
	header               http.Header
}

func startApplication(t *testing.T) *application {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &application{port: ln.Addr().(*net.TCPAddr).Port}
	server := &http.Server{Handler: a}
	go func() { _ = server.Serve(ln) }() // returns when the server is closed
	t.Cleanup(func() { _ = server.Close() })
	return a
}

// ServeHTTP records and answers a request.
func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	if len(a.received) < mostReceived {
		a.received = append(a.received, received{r.Method, r.RequestURI, string(body), r.Header})
	}
	a.mu.Unlock()
	w.Header().Set("X-Application", "yes")
	_, _ = io.WriteString(w, "hello\n") // the client may have disconnected
}

// take returns the requests since the last call.
func (a *application) take() []received {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.received
	a.received = nil
	return all
}
