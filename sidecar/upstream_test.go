package sidecar

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/goroutines"
	"github.com/throttledhq/throttled/internal/tlstest"
	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/topology"
)

const sidecarPackage = "github.com/throttledhq/throttled/sidecar"

// run starts an Upstream, and stops it at the end of the test.
func run(t *testing.T, c Config) *Upstream {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = time.Second
	}
	before := goroutines.Of(sidecarPackage + ".(*Upstream)")
	u := New(c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		u.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		goroutines.AwaitEnd(t, sidecarPackage+".(*Upstream)", before)
	})
	return u
}

func (u *Upstream) await(t *testing.T, addr string) *topology.View {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		v := u.View()
		if v.Leader == addr {
			return v
		}
		select {
		case <-v.Changed:
		case <-deadline:
			t.Fatalf("the upstream in use is %q, want %q; %+v", v.Leader, addr, u.Upstream())
		}
	}
}

// TestUpstream_Selects kills and restarts the nodes of an upstream. The sidecar must use the one that runs.
func TestUpstream_Selects(t *testing.T) {
	a, b := newNode(t), newNode(t)
	u := run(t, Config{Addresses: []string{a.addr(), b.addr()}})
	first := u.await(t, a.addr()) // it has a head start
	a.kill()
	second := u.await(t, b.addr())
	if second.Term <= first.Term || u.Silent() {
		t.Errorf("Term is %d, want more than %d; Silent is %t, want false", second.Term, first.Term, u.Silent())
	}
	a.restart()
	if v := u.View(); v.Leader != b.addr() {
		t.Errorf("the upstream in use is %q, want that which answers", v.Leader)
	}
	b.kill()
	u.await(t, a.addr())
	if s := u.Upstream(); s.Address != a.addr() || s.Connects != 3 || s.Error != "" || s.Answered.IsZero() {
		t.Errorf("got the status %+v, want the first address, 3 connects, and no error", s)
	}
}

// TestUpstream_Silent pauses the upstream. After Suspect, the sidecar must count it as silent, and as answering as soon as
// it continues.
func TestUpstream_Silent(t *testing.T) {
	n := newNode(t)
	u := run(t, Config{Addresses: []string{n.addr()}, Timeout: 50 * time.Millisecond})
	u.await(t, n.addr())
	n.pause()
	u.Suspect()
	if !u.Silent() {
		t.Error("Silent is false after Suspect, want true")
	}
	u.await(t, "")
	if s := u.Upstream(); s.Error != errSilent.Error() || s.Address != "" {
		t.Errorf("got the status %+v, want no address, and the error %q", s, errSilent)
	}
	n.resume()
	u.await(t, n.addr())
	eventually(t, "Silent is false", func() bool { return !u.Silent() })
}

// TestUpstream_Suspect checks that an upstream that answers is not silent for longer than a probe takes.
func TestUpstream_Suspect(t *testing.T) {
	n := newNode(t)
	u := run(t, Config{Addresses: []string{n.addr()}})
	v := u.await(t, n.addr())
	u.Suspect()
	eventually(t, "Silent is false", func() bool { return !u.Silent() })
	if u.View() != v {
		t.Error("the view has changed, want the same")
	}
}

// TestUpstream_NotDeciding checks that a node that answers, but cannot decide requests, is not used.
func TestUpstream_NotDeciding(t *testing.T) {
	a, b := newNode(t), newNode(t)
	a.answer("-LOADING the cluster has no leader at the moment: nothing was charged, try again")
	u := run(t, Config{Addresses: []string{a.addr(), b.addr()}})
	u.await(t, b.addr())
	a.answer("-NOPERM this user has no permissions to run the 'exists' command")
	b.answer("-LOADING")
	u.Suspect()
	u.await(t, a.addr())
}

// TestUpstream_Authenticates checks the credentials, and that an address is not tried often with wrong ones.
func TestUpstream_Authenticates(t *testing.T) {
	n := newNode(t)
	n.password = "app:secret"
	file := filepath.Join(t.TempDir(), "password")
	c := Credentials{User: "app", PasswordFile: file}
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "upstream-password-file") {
		t.Errorf("without the file: got error %v, want upstream-password-file", err)
	}
	write(t, file, "wrong\n")
	u := run(t, Config{Addresses: []string{n.addr()}, Credentials: c})
	eventually(t, "the error", func() bool { return strings.Contains(u.Upstream().Error, "WRONGPASS") })
	if u.Upstream().Address != "" || !strings.Contains(u.Upstream().Error, n.addr()) {
		t.Errorf("got the status %+v, want no address, and an error with the address", u.Upstream())
	}
	n.mu.Lock()
	if n.logins > 2 {
		t.Errorf("%d attempts with a wrong password, want 1", n.logins)
	}
	n.mu.Unlock()
	write(t, file, "secret\n")
	again := run(t, Config{Addresses: []string{n.addr()}, Credentials: c})
	again.await(t, n.addr())
	conn, err := again.Dial(t.Context(), n.addr())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	_ = conn.Close()
}

// logBuffer is a buffer that is safe for concurrent use.
type logBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDial_TLS connects with certificates that the other side accepts, and with ones that it does not.
func TestDial_TLS(t *testing.T) {
	site := tlstest.New(t)
	site.Replace("app", site.Issue("app"))
	pair, err := tls.LoadX509KeyPair(site.Path("server.pem"), site.Path("server-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t)
	encrypted := tls.NewListener(mustListen(t), &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool(t, site.Path("ca.pem")), MinVersion: tls.VersionTLS12})
	t.Cleanup(func() { _ = encrypted.Close() })
	go n.accept(encrypted)
	addr := encrypted.Addr().String()
	good := Credentials{TLS: true, CACertFile: site.Path("ca.pem"), CertFile: site.Path("app.pem"), KeyFile: site.Path("app-key.pem"), ServerName: tlstest.ServerName}
	for _, tt := range []struct {
		name   string
		change func(c *Credentials)
		want   string // in the error of Check or of the connection
	}{
		{"good", func(*Credentials) {}, ""},
		{"another name", func(c *Credentials) { c.ServerName = "" }, "127.0.0.1"},
		{"CAs of the system", func(c *Credentials) { c.CACertFile = "" }, "unknown authority"},
		{"no certificate", func(c *Credentials) { c.CertFile = "" }, "certificate required"},
		{"no CA file", func(c *Credentials) { c.CACertFile = "absent" }, "upstream-tls-ca-cert-file"},
		{"no CA in the file", func(c *Credentials) { c.CACertFile = site.Path("app-key.pem") }, "upstream-tls-ca-cert-file"},
		{"no key file", func(c *Credentials) { c.KeyFile = "absent" }, "upstream-tls-cert-file"},
	} {
		c := good
		tt.change(&c)
		err := c.Check()
		if err == nil {
			var p *prober
			if p, err = openProber(t.Context(), &c, addr); err == nil {
				p.close()
			}
		}
		// In TLS 1.3, the server reports a missing certificate after the handshake of the client, or closes the connection.
		missing := tt.name == "no certificate" && errors.Is(err, errNoGreeting)
		if tt.want == "" && err != nil || tt.want != "" && !missing && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.want)
		}
	}
}

func mustListen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func pool(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(text)
	return p
}

// TestDial_Canceled checks that a dial to a node that does not answer fails when its context is done.
func TestDial_Canceled(t *testing.T) {
	n := newNode(t)
	n.pause()
	file := filepath.Join(t.TempDir(), "password")
	write(t, file, "secret")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	u := New(Config{Addresses: []string{n.addr()}, Credentials: Credentials{PasswordFile: file}, Timeout: time.Second})
	if conn, err := u.Dial(ctx, n.addr()); err == nil {
		_ = conn.Close()
		t.Error("Dial to a paused node succeeded, want an error")
	}
}

func TestReadLine(t *testing.T) {
	for text, want := range map[string]string{
		"+OK\r\n:1\r\n": "+OK", ":0\r\n": ":0", "+OK": "", "+OK\n": "", "\r\n": "", "": "", strings.Repeat("x", 2*maxLine): "",
	} {
		if got, err := readLine(strings.NewReader(text)); got != want || (err == nil) != (want != "") {
			t.Errorf("%.20q: got %q, error %v, want %q", text, got, err, want)
		}
	}
}

// decideOdd is a Decider that decides requests with an odd quantity.
type decideOdd struct{}

func (decideOdd) Decide(reqs []limiter.Request, out []limiter.Decision) {
	for i := range reqs {
		if out[i] = (limiter.Decision{Limit: 7}); reqs[i].Quantity%2 == 0 {
			out[i] = limiter.Decision{Err: limiter.ErrNotLeading}
		}
	}
}

func TestEngine(t *testing.T) {
	reqs := []limiter.Request{{Quantity: 1}, {Quantity: 2}}
	for _, tt := range []struct {
		decider Decider
		want    [2]bool // decided
	}{{nil, [2]bool{}}, {decideOdd{}, [2]bool{true, false}}} {
		out := make([]limiter.Decision, 2)
		token := Engine{tt.decider}.Decide(reqs, out)
		for i, want := range tt.want {
			if decided := !errors.Is(out[i].Err, limiter.ErrNotLeading); decided != want || token != (limiter.CommitToken{}) {
				t.Errorf("Decider %T, request %d: decided is %t, want %t; token %v", tt.decider, i, decided, want, token)
			}
		}
	}
	var e limiter.Engine = Engine{}
	_, deleteErr := e.Delete([]byte("k"))
	if clearErr := e.Clear(); !errors.Is(deleteErr, limiter.ErrNotLeading) || !errors.Is(clearErr, limiter.ErrNotLeading) || e.WaitCommitted(e.LastWrite()) != nil {
		t.Errorf("Delete: %v, Clear: %v, want limiter.ErrNotLeading", deleteErr, clearErr)
	}
	_, found := e.Lookup([]byte("k"))
	if _, random := e.RandomKey(1); found || random || e.Scan(0, 1, nil) != 0 || e.Usage() != (limiter.Usage{}) {
		t.Error("the engine has keys, want none")
	}
}
