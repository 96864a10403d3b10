package freeport

import (
	"fmt"
	"net"
	"testing"
)

func TestOf(t *testing.T) {
	for range 100 {
		port := Of(t)
		if port < first || port > last {
			t.Errorf("port %d", port)
		}
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
	}
}
