package docs

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/edge"
	"github.com/throttledhq/throttled/edge/decision"
	"github.com/throttledhq/throttled/internal/testserve"
	"github.com/throttledhq/throttled/options"
)

const curl = "$ curl "

// TestHTTPExamples runs the examples of http.md with curl in their order. The clock does not advance.
func TestHTTPExamples(t *testing.T) {
	addr, save := startHTTP(t)
	played := 0
	for _, b := range blocks(documents(t)["http.md"]) {
		switch {
		case b.kind == "yaml":
			save(strings.Join(b.lines, "\n") + "\n")
		case strings.HasPrefix(b.lines[0], curl):
			playCurl(t, addr, &b)
			played++
		}
	}
	if played < 4 {
		t.Errorf("%d blocks were played, want at least 4", played)
	}
}

// startHTTP starts an HTTP server. save changes its rules.
func startHTTP(t *testing.T) (addr string, save func(text string)) {
	t.Helper()
	p := startServer(t)
	opts, err := options.New(options.Default())
	if err != nil {
		t.Fatal(err)
	}
	checker := decision.New(func() decision.Runner { return p.server.NewCaller() })
	t.Cleanup(checker.Close)
	h, err := edge.New(edge.Config{Checker: checker, Access: p.server, Options: opts, Rules: p.rules})
	if err != nil {
		t.Fatal(err)
	}
	return testserve.Start(t, h, nil), func(text string) { p.save(t, "http.md", &step{rules: text}) }
}

// playCurl runs the commands of a block, and compares their output.
func playCurl(t *testing.T, addr string, b *block) {
	t.Helper()
	for i := 0; i < len(b.lines); {
		command := b.lines[i]
		end := i + 1
		for end < len(b.lines) && !strings.HasPrefix(b.lines[end], curl) {
			end++
		}
		want := strings.Join(b.lines[i+1:end], "\n")
		if got := runCurl(t, addr, strings.TrimPrefix(command, curl)); got != want {
			t.Errorf("http.md:%d: %s\n%s, want\n%s", b.line+i, command, got, want)
		}
		i = end
	}
}

// runCurl sends the request of a command with the options -s, -i, -H and -d, and returns its output.
func runCurl(t *testing.T, addr, command string) string {
	t.Helper()
	parts := strings.Split(command, "'") // the quoted arguments have the odd positions
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(parts); i += 2 {
		if strings.HasSuffix(parts[i-1], "-d ") {
			r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader(parts[i])), int64(len(parts[i]))
			continue
		}
		name, value, _ := strings.Cut(parts[i], ": ")
		r.Header.Set(name, value)
	}
	words := strings.Fields(command)
	r.URL.Path = strings.TrimPrefix(words[len(words)-1], "localhost:6381")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(words, "-i") {
		return string(all)
	}
	return response.Proto + " " + response.Status + "\n" + headerLines(response.Header) + string(all)
}

// headerLines returns the headers in the document: all except the date and the length, in alphabetical order.
func headerLines(h http.Header) string {
	var lines []string
	for name, values := range h {
		if name != "Date" && name != "Content-Length" {
			name = strings.ReplaceAll(name, "Ratelimit", "RateLimit")
			lines = append(lines, fmt.Sprintf("%s: %s", name, strings.Join(values, ", ")))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
