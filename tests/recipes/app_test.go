package recipes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/throttledhq/throttled/internal/freeport"
)

// The addresses from which tests send requests. The applications trust X-Forwarded-For of the proxy only.
const (
	proxy    = "127.0.0.1"
	stranger = "127.0.0.2"
)

// recipe is an example, and how it is run.
type recipe struct {
	folder string // in examples/
	// prepare installs the dependencies of the files in dir, a copy of the folder. It returns the command of the application.
	prepare func(t *testing.T, dir, port string) []string
	// proxies is the environment variable with the trusted proxies, and trusted its value for the address proxy.
	proxies, trusted string
	env              []string
}

// app is a running application.
type app struct {
	addr    string
	process *process
}

// launcher starts applications of a recipe.
type launcher struct {
	recipe recipe
	dir    string
}

// prepareRecipe copies the folder of the recipe, without files that a user has installed or built in it.
func prepareRecipe(t *testing.T, r recipe) launcher {
	t.Helper()
	source, dir := example(r.folder), t.TempDir()
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains([]string{"node_modules", ".venv", "__pycache__", "target", "vendor"}, entry.Name()) {
			return fs.SkipDir
		}
		relative, err := filepath.Rel(source, path)
		if err != nil || entry.IsDir() {
			return errors.Join(err, os.MkdirAll(filepath.Join(dir, relative), 0o755))
		}
		copyFile(t, path, filepath.Join(dir, filepath.Dir(relative)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return launcher{recipe: r, dir: dir}
}

// example returns the path of a file or folder in examples/.
func example(name string) string { return filepath.Join("..", "..", "examples", name) }

// start starts the application, with the deadline of the recipe or a longer one, until the test ends. It returns when the
// application has decided a request.
func (l launcher) start(t *testing.T, limiter *server, deadline time.Duration) *app {
	t.Helper()
	port := strconv.Itoa(freeport.Of(t))
	command := l.recipe.prepare(t, l.dir, port)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "PORT="+port, "LIMITER_URL="+limiter.url(), l.recipe.proxies+"="+l.recipe.trusted)
	cmd.Env = append(cmd.Env, l.recipe.env...)
	if deadline > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("LIMITER_DEADLINE_MS=%d", deadline.Milliseconds()))
	}
	a := &app{addr: net.JoinHostPort("127.0.0.1", port), process: startProcess(t, cmd)}
	a.awaitDecision(t)
	return a
}

// awaitDecision sends requests until the limiter decides one.
func (a *app) awaitDecision(t *testing.T) {
	t.Helper()
	eventually(t, a.process, func() error {
		r, err := a.try(t.Context(), request{method: "GET", path: "/api/items"})
		if err == nil && r.header.Get("RateLimit") == "" {
			err = fmt.Errorf("status %d without a decision; header %v, body %s", r.status, r.header, r.body)
		}
		return err
	})
}

// request is a request, by default from the trusted proxy.
type request struct {
	method, path string // the path is sent as it is
	from         string
	headers      []string // lines
}

type response struct {
	status  int
	header  http.Header
	body    string
	elapsed time.Duration
}

// login is a login of the client with an address. The proxy sends the address in X-Forwarded-For.
func login(ip string, headers ...string) request {
	return request{method: "POST", path: "/login", headers: append([]string{"X-Forwarded-For: " + ip}, headers...)}
}

// send sends a request.
func (a *app) send(t *testing.T, r request) response {
	t.Helper()
	answer, err := a.try(t.Context(), r)
	if err != nil {
		t.Errorf("%s %s: %v; output of the application:\n%s", r.method, r.path, err, a.process.log)
	}
	return answer
}

func (a *app) try(ctx context.Context, r request) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	started := time.Now()
	from := proxy
	if r.from != "" {
		from = r.from
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(ctx, "tcp", a.addr)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = conn.Close() }() // the response has been read
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return response{}, err
	}
	lines := append([]string{
		r.method + " " + r.path + " HTTP/1.1", "Host: 127.0.0.1", "Connection: close", "Content-Length: 0",
	}, r.headers...)
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		return response{}, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return response{}, err
	}
	body, err := io.ReadAll(answer.Body)
	return response{answer.StatusCode, answer.Header, string(body), time.Since(started)}, err
}
