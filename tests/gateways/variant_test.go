package gatewaystests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// variant activates the lines of a configuration whose comments it contains: "fail closed", "cluster" and "password".
type variant []string

// opposites are the comments of lines that the lines of a variant replace.
var opposites = map[string]string{"fail closed": "fail open", "password": "no password"}

// apply returns the configuration with exactly the lines of the variant active.
func (v variant) apply(text string) string {
	for _, word := range v {
		if other, ok := opposites[word]; ok {
			text = deactivate(text, other)
		}
		text = activate(text, word)
	}
	return text
}

func activate(text, word string) string {
	return regexp.MustCompile(`(?m)^(\s*)#(.*# `+word+`)$`).ReplaceAllString(text, "$1$2")
}

func deactivate(text, word string) string {
	return regexp.MustCompile(`(?m)^(\s*)([^#\s].*# `+word+`)$`).ReplaceAllString(text, "$1#$2")
}

// The ports of the examples.
const (
	sitePort        = 8080 // of the gateway
	applicationPort = 8000
	checksPort      = 8082 // on which Traefik accepts its own check requests
	adminPort       = 9901 // of Envoy
)

// httpPorts and grpcPorts are those of the limiter, or of the nodes of a cluster.
var (
	httpPorts = []int{6381, 6481, 6581}
	grpcPorts = []int{6383, 6483, 6583}
)

// withPorts returns the configuration with other ports. The name of the socket of HAProxy, which is unique on a machine,
// gets the port of the gateway.
func withPorts(text string, ports map[int]int) string {
	for from, to := range ports {
		text = regexp.MustCompile(fmt.Sprintf(`\b%d\b`, from)).ReplaceAllString(text, "port"+strconv.Itoa(to))
	}
	text = regexp.MustCompile(`\bport(\d+)\b`).ReplaceAllString(text, "$1") // a new port may be one of the ports of the examples
	return strings.ReplaceAll(text, "@throttled-limiter", fmt.Sprintf("@throttled-limiter-%d", ports[sitePort]))
}

// deadline matches the deadline of a configuration.
var deadline = regexp.MustCompile(`\b(50ms|0\.05s)`)

// patient returns the configuration with a deadline that a busy machine does not exceed.
func patient(text string) string { return deadline.ReplaceAllString(text, "60s") }

// exampleFile returns a file of an example.
func exampleFile(name, file string) string { return filepath.Join("..", "..", "examples", name, file) }

// configure writes the files of an example to a new directory, with a change of their text.
func configure(t *testing.T, name string, change func(string) string) string {
	t.Helper()
	files, err := os.ReadDir(exampleFile(name, ""))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(exampleFile(name, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file.Name()), []byte(change(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestVariant(t *testing.T) {
	const text = "a # fail open\n  #b # fail closed\n# text about # fail open\n\t#c # cluster\nd\n"
	for _, c := range []struct {
		v    variant
		want string
	}{
		{nil, text},
		{variant{"fail closed"}, "#a # fail open\n  b # fail closed\n# text about # fail open\n\t#c # cluster\nd\n"},
		{variant{"cluster"}, "a # fail open\n  #b # fail closed\n# text about # fail open\n\tc # cluster\nd\n"},
	} {
		if got := c.v.apply(text); got != c.want {
			t.Errorf("%q: got\n%s, want\n%s", c.v, got, c.want)
		}
	}
}

func TestWithPorts(t *testing.T) {
	got := withPorts("a:8080 b:8000 c:80800 abns@throttled-limiter", map[int]int{8080: 8000, 8000: 8080})
	if want := "a:8000 b:8080 c:80800 abns@throttled-limiter-8000"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
