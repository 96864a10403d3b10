package clienttests

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// TestRedisExporter runs redis_exporter, whose metrics must contain those of the server.
func TestRedisExporter(t *testing.T) {
	path := tool(t, "prometheus-redis-exporter", "prometheus-redis-exporter")
	srv := start(t, "secret")
	srv.ask(t, "CL.THROTTLE", "key", "15", "30", "60")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close() // nothing has connected
	cmd := exec.CommandContext(t.Context(), path, "-redis.addr", "redis://"+srv.addr, "-redis.password", "secret", "-web.listen-address", addr)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it runs until it is killed
		_ = cmd.Wait()         // the error is that it was killed
	})
	var text string
	eventually(t, func(ctx context.Context) (err error) {
		text, err = get(ctx, "http://"+addr+"/metrics")
		return err
	})
	for _, want := range []string{"redis_up 1", `redis_commands_total{cmd="cl.throttle"} 1`, `redis_db_keys{db="db0"} 1`, "redis_connected_clients ", `role="master"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics of redis_exporter do not contain %s", want)
		}
	}
	if strings.Contains(text, `db="db1"`) {
		t.Error("redis_exporter reports databases that the server does not have")
	}
}

// get returns the body of a response with the status 200.
func get(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // the body has been read
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return string(body), err
}
