package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/internal/tlstest"
)

// receiveTraces starts a receiver of traces, whose clients need a token. It returns the URL, and the bodies of the requests.
func receiveTraces(t *testing.T) (url string, bodies *lockedBuffer) {
	bodies = &lockedBuffer{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != canaryTrace {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.Copy(bodies, r.Body)
	}))
	t.Cleanup(receiver.Close)
	return receiver.URL, bodies
}

// prepareCanary returns a server with passwords, a key, all ports and traces, and its HTTP and gRPC addresses. It has not
// been started.
func prepareCanary(t *testing.T, site *tlstest.Site, traces string) (p *process, web, rpc, dir string) {
	t.Helper()
	dir, web, rpc = t.TempDir(), freeAddr(t), freeAddr(t)
	writeFile(t, filepath.Join(dir, "users.acl"), "user app on >"+canaryUser+" ~app:* +cl.throttle +acl|whoami +echo\n")
	writeFile(t, filepath.Join(dir, "password"), canaryPass+"\n")
	writeFile(t, filepath.Join(dir, "throttled.conf"), "loglevel debug\n")
	p = &process{t: t, id: "server", addr: freeAddr(t)}
	p.args = append([]string{filepath.Join(dir, "throttled.conf"), "--aclfile", filepath.Join(dir, "users.acl"), "--requirepass-file", filepath.Join(dir, "password"),
		"--port", portOf(p.addr), "--http-port", portOf(web), "--grpc-port", portOf(rpc), "--tls-port", portOf(freeAddr(t)), "--dir", dir,
		"--slowlog-log-slower-than", "0", "--slowlog-max-len", "10000", "--auth-failures-per-minute", "0",
		"--otlp-endpoint", traces, "--otlp-sample-percent", "100"}, site.Args("optional")...)
	// The SDK of OpenTelemetry reads these variables.
	p.env = []string{"OTEL_EXPORTER_OTLP_HEADERS=Authorization=" + canaryTrace, "OTEL_BSP_SCHEDULE_DELAY=10"}
	return p, web, rpc, dir
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// TestSecretsAreNotShown uses passwords in a real process in all ways, and checks that none of them is in anything that the
// process shows: replies, MONITOR, SLOWLOG, CLIENT LIST, ACL LOG, CONFIG, INFO, the files that it writes, HTTP pages, replies
// over gRPC, metrics, traces, the log of all levels, and the stacks of all goroutines. Neither is its private key.
func TestSecretsAreNotShown(t *testing.T) {
	site := tlstest.New(t)
	traces, bodies := receiveTraces(t)
	p, web, rpc, dir := prepareCanary(t, site, traces)
	c := newCanary(t, site.Path("server-key.pem"))
	p.start()
	p.waitLog("ready")
	admin := openSession(t, p.addr)
	c.add(admin.send("AUTH " + canaryPass))
	monitor := openSession(t, p.addr)
	c.add(monitor.send("AUTH default "+canaryPass, "MONITOR"))

	app := openSession(t, p.addr)
	_, _ = fmt.Fprintf(app.conn, "AUTH %s\r\nAUTH app %s\r\nHELLO 3 AUTH app %s\r\nAUTH %s app\r\n", canaryWrong, canaryWrong, canaryWrong, canaryPass)
	c.add(app.send("AUTH app "+canaryUser, "HELLO 3 AUTH app "+canaryUser, "CL.THROTTLE app:1 5 5 60", "CL.THROTTLE other 5 5 60", "CL.WINDOW app:2 5 60"))
	c.add(admin.send(
		"ACL SETUSER extra on >"+canaryAdded+" +@all ~*", "ACL SETUSER extra <"+canaryWrong, "ACL SETUSER extra >"+canaryAdded+" nonsense", "ACL SETUSER extra #"+canaryWrong,
		"MULTI", "AUTH extra "+canaryAdded, "EXEC", "AUTH extra "+canaryAdded, "AUTH default "+canaryPass, "ACL GETUSER extra", "ACL LIST", "ACL SAVE", "ACL LOAD", "ACL DRYRUN extra auth "+canaryAdded,
		"CONFIG SET requirepass "+canaryAdded, "CONFIG SET tls-key-file "+site.Path("server-key.pem"), "CONFIG SET tls-key-file "+site.Path("ca.pem"), "CONFIG REWRITE"))
	c.add(admin.send(adminPages...))
	c.add(monitor.send())
	c.addPages(web)
	c.addCalls(rpc)
	until(t, "traces are received", func() bool { return strings.Contains(bodies.String(), "ShouldRateLimit") })
	c.add(bodies.String())
	p.hangUp()
	p.waitLog("reloaded")
	c.stop(p)
	c.addFiles(filepath.Join(dir, "users.acl"), filepath.Join(dir, "throttled.conf"))
	c.check("wrong password", "(redacted)", "throttled_clients", `"CL.THROTTLE" "app:1"`, "InvalidArgument", "Unauthenticated", "/check/nginx")
}
