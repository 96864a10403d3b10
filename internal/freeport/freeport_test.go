package freeport

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// printPorts is an environment variable. If it is set, TestOf prints some ports and returns. TestOf
// uses the variable to start the test binary as a second process that uses ports.
const printPorts = "FREEPORT_PRINT"

func TestOf(t *testing.T) {
	if os.Getenv(printPorts) != "" {
		for range size / 2 {
			fmt.Println("port", Of(t))
		}
		return
	}
	seen := map[int]bool{}
	for range size / 2 {
		port := Of(t)
		if port <= first || port >= first+blocks*size || seen[port] {
			t.Errorf("port %d is out of range or was returned twice", port)
		}
		seen[port] = true
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestOf$")
	cmd.Env = append(os.Environ(), printPorts+"=1")
	out, err := cmd.Output()
	if err != nil || strings.Count(string(out), "port ") != size/2 {
		t.Fatalf("the second process failed or printed a wrong number of ports: %v\n%s", err, out)
	}
	for port := range seen {
		if strings.Contains(string(out), fmt.Sprintf("port %d\n", port)) {
			t.Errorf("port %d was returned to two processes", port)
		}
	}
}

// TestOf_AllUsed calls Of more often than there are ports. All ports must be reused, except the port
// that is in use.
func TestOf_AllUsed(t *testing.T) {
	inUse := Of(t)
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", inUse))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	times := map[int]int{}
	for range 2 * (size - 2) {
		times[Of(t)]++
	}
	if len(times) > size-2 || len(times) < size/2 || times[inUse] > 0 { // other programs may use some ports
		t.Errorf("%d of %d ports were returned, and the port in use %d times; want at least half of the ports, and not the one in use", len(times), size-2, times[inUse])
	}
}
