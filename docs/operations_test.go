package docs

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/internal/freeport"
)

const anyProgram = "$ bin/throttled "

// TestOperations runs the commands of operations.md in their order, for a server with two keys and a rules file.
func TestOperations(t *testing.T) {
	dir, port := t.TempDir(), strconv.Itoa(freeport.Of(t))
	p := place{dir: dir, port: port, program: buildProgram(t)}
	p.write(t, rulesFile, rulesFiles(t, "rules-tutorial.md")[0].rules)
	waitFor(t, startProgram(t, dir, "--port", port, "--rules", rulesFile), "msg=ready")
	for _, key := range []string{"a", "b"} {
		p.ask(t, nil, []string{"CL.THROTTLE", key, "1", "1", "3600"})
	}
	played := 0
	for _, b := range blocks(documents(t)["operations.md"]) {
		for i := 0; i < len(b.lines); i++ {
			args, isCommand := strings.CutPrefix(b.lines[i], anyProgram)
			if !isCommand {
				continue
			}
			var want []string
			for i+1 < len(b.lines) && !strings.HasPrefix(b.lines[i+1], "$ ") {
				i++
				want = append(want, b.lines[i])
			}
			p.playCommand(t, b.line, strings.Fields(args), want)
			played++
		}
	}
	if played < 3 {
		t.Errorf("%d commands were played, want at least 3", played)
	}
}

// playCommand runs the program in the directory of the server and compares its output. Three dots in the document match any text.
func (p *place) playCommand(t *testing.T, line int, args, want []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), "THROTTLED_PORT="+p.port)
	out, err := cmd.CombinedOutput()
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.Join(want, "\n")+"\n"), `\.\.\.`, ".*")
	if err != nil || !regexp.MustCompile("^"+pattern+"$").Match(out) {
		t.Errorf("operations.md:%d: %q prints %s, error %v; want %s", line, args, out, err, strings.Join(want, "\n"))
	}
}

// containerRow matches a row of the table with limits of containers, in units of mb and gb.
var containerRow = regexp.MustCompile(`(?m)^\| (\d+)(mb|gb) \| (\d+)mb \| (\d+)mb \| (\d+) \|$`)

// TestOperations_ContainerMemory checks that the settings of each row fit into the limit of the container, and that
// maxmemory-clients is at least that of sizing.md, 24 KiB for each of up to 10,000 clients.
func TestOperations_ContainerMemory(t *testing.T) {
	rows := containerRow.FindAllStringSubmatch(documents(t)["operations.md"], -1)
	if len(rows) < 3 {
		t.Errorf("the table has %d rows, want at least 3", len(rows))
	}
	for _, row := range rows {
		n := func(i int) int {
			number, err := strconv.Atoi(row[i])
			if err != nil {
				t.Fatal(err)
			}
			return number
		}
		limit := n(1)
		if row[2] == "gb" {
			limit *= 1024
		}
		if used := n(3)*5/4 + 64 + n(4); used > limit*9/10 || used < limit*3/4 {
			t.Errorf("%s: the process needs up to %d of %d MiB", row[0], used, limit)
		}
		if clients := n(5) * 24 / 1024; clients > n(4) || n(5) > 10_000 {
			t.Errorf("%s: %d clients need %d MiB, or more than the formula states", row[0], n(5), clients)
		}
	}
}

// TestOperations_Names checks that the page names no file, alert or metric that does not exist.
func TestOperations_Names(t *testing.T) {
	text := documents(t)["operations.md"]
	for pattern, file := range map[string]string{`Throttled[A-Z]\w+`: "../deploy/alerts.yml", `throttled_[a-z_]+`: "metrics.md"} {
		known, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(pattern).FindAllString(text, -1) {
			if !strings.Contains(string(known), name) {
				t.Errorf("%s has no %s", file, name)
			}
		}
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.FromSlash(link[1])); err != nil {
			t.Errorf("broken link: %v", err)
		}
	}
}

// TestOperations_Probes sends the probes of Kubernetes in the page to a server.
func TestOperations_Probes(t *testing.T) {
	text := documents(t)["operations.md"]
	found := regexp.MustCompile(`(\w+Probe):\n  httpGet: \{path: (\S+), port: 6381\}`).FindAllStringSubmatch(text, -1)
	if len(found) != 3 {
		t.Fatalf("the page has %d probes, want 3", len(found))
	}
	addr, _ := startHTTP(t)
	for _, probe := range found {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 10.1.2.3:6381\r\nUser-Agent: kube-probe/1.32\r\nConnection: close\r\n\r\n", probe[2])
		answer := make([]byte, 12)
		if _, err := conn.Read(answer); err != nil || string(answer) != "HTTP/1.1 200" {
			t.Errorf("%s: %q, error %v; want status 200", probe[1], answer, err)
		}
		_ = conn.Close()
	}
}
