package deploy

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// user is the user and group that the image and the chart use.
const user = "65532"

// lab is a network of one machine that only its own processes can reach. Host names have addresses in 127.0.0.0/8.
type lab struct {
	t     *testing.T
	pid   string // of the process that keeps the network
	hosts string // text of /etc/hosts
}

// newLab creates a network. hosts has the addresses by name.
func newLab(t *testing.T, hosts map[string]string) *lab {
	t.Helper()
	l := &lab{t: t, hosts: "127.0.0.1 localhost\n"}
	for name, address := range hosts {
		l.hosts += address + " " + name + "\n"
	}
	cmd := exec.Command("unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // returns an error because of the kill
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("create a network: read %q, error %v", line, err)
	}
	l.pid = strconv.Itoa(cmd.Process.Pid)
	return l
}

// container is a root directory with the files of the image: the program and empty directories, and nothing else.
type container struct {
	lab  *lab
	root string
	env  []string
}

// newContainer creates a container.
func (l *lab) newContainer(env []string) *container {
	l.t.Helper()
	c := &container{l, l.t.TempDir(), env}
	for _, name := range []string{"etc", "data", "certs"} {
		if err := os.Mkdir(filepath.Join(c.root, name), 0o755); err != nil {
			l.t.Fatal(err)
		}
	}
	c.write("etc/hosts", l.hosts)
	run(l.t, "cp", program, filepath.Join(c.root, "throttled"))
	run(l.t, "chown", "-R", user+":"+user, filepath.Join(c.root, "data"), filepath.Join(c.root, "certs"))
	for dir := c.root; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // the user of the image must reach it
			l.t.Fatal(err)
		}
	}
	return c
}

// write writes a file that the user of the container can read.
func (c *container) write(name, text string) {
	c.lab.t.Helper()
	path := filepath.Join(c.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.lab.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		c.lab.t.Fatal(err)
	}
}

// command returns a command that runs the program in the container, as the user of the image and with its environment.
func (c *container) command(args ...string) *exec.Cmd {
	cmd := c.lab.command(append([]string{"/usr/sbin/chroot", "--userspec=" + user + ":" + user, c.root, "/throttled"}, args...)...)
	cmd.Env = c.env
	return cmd
}

// start starts the program in the container.
func (c *container) start(args ...string) *server { return startCommand(c.lab.t, c.command(args...)) }

// run runs the program in the container until it exits.
func (c *container) run(args ...string) string {
	c.lab.t.Helper()
	out, err := c.command(args...).CombinedOutput()
	if err != nil {
		c.lab.t.Fatalf("throttled %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// awaitHealth waits until the program reports that the server in the container is ready.
func (c *container) awaitHealth(s *server) {
	c.lab.t.Helper()
	var out []byte
	for end := time.Now().Add(patience); time.Now().Before(end); {
		var err error
		if out, err = c.command("health").CombinedOutput(); err == nil {
			return
		}
		select {
		case <-s.done:
			c.lab.t.Fatalf("the server exits:\n%s", s.log)
		case <-time.After(50 * time.Millisecond):
		}
	}
	c.lab.t.Fatalf("the server is not ready: %s\n%s", out, s.log)
}

// ask sends a command with redis-cli to a server of the network. An empty password means none.
func (l *lab) ask(host, password string, args ...string) string {
	l.t.Helper()
	cli := []string{"redis-cli", "-h", host, "-p", "6380"}
	if password != "" {
		cli = append(cli, "--no-auth-warning", "-a", password)
	}
	return l.run(slices.Concat(cli, args)...)
}

// command returns a command that runs in the network.
func (l *lab) command(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net", "-t", l.pid}, args...)...)
}

// run runs a command in the network, and returns its output without space around it.
func (l *lab) run(args ...string) string {
	l.t.Helper()
	out, err := l.command(args...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// address returns the loopback address of a node.
func address(i int) string { return fmt.Sprintf("127.0.3.%d", i+1) }
