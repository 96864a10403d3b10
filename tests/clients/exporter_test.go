package clienttests

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/internal/freeport"
)

// graphed are metrics of redis_exporter that dashboards for Redis use.
var graphed = strings.Fields(`redis_instance_info redis_uptime_in_seconds redis_connected_clients redis_blocked_clients redis_connections_received_total redis_rejected_connections_total
	redis_commands_processed_total redis_commands_total redis_commands_duration_seconds_total redis_memory_used_bytes redis_memory_max_bytes redis_db_keys redis_db_keys_expiring
	redis_expired_keys_total redis_evicted_keys_total redis_keyspace_hits_total redis_keyspace_misses_total redis_net_input_bytes_total redis_net_output_bytes_total
	redis_slowlog_length redis_connected_slaves`)

// sentinelMetrics are the metrics of a Sentinel.
var sentinelMetrics = []string{"redis_sentinel_masters", "redis_sentinel_master_status", "redis_sentinel_master_slaves", "redis_sentinel_master_sentinels"}

// exporter is a running redis_exporter.
type exporter struct{ metrics string } // the URL

// startExporter starts redis_exporter for a site. It runs until the test ends.
func startExporter(t *testing.T, s site) exporter {
	t.Helper()
	listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.Of(t)))
	scheme := "redis"
	args := []string{"-web.listen-address", listen, "-export-client-list"}
	if s.ca != "" {
		scheme = "rediss"
		args = append(args, "-tls-ca-cert-file", s.ca)
	}
	if s.password != "" {
		args = append(args, "-redis.user", s.user, "-redis.password", s.password)
	}
	if s.name == siteCluster {
		args = append(args, "-is-cluster")
	}
	cmd := exec.CommandContext(t.Context(), tool(t, "prometheus-redis-exporter", "prometheus-redis-exporter"), append(args, "-redis.addr", scheme+"://"+s.address)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it runs until it is killed
		_ = cmd.Wait()         // the error is that it was killed
	})
	e := exporter{metrics: "http://" + listen + "/metrics"}
	eventually(t, func(ctx context.Context) error {
		_, err := get(ctx, "http://"+listen+"/health")
		return err
	})
	return e
}

// scrape returns the metrics.
func (e exporter) scrape(t *testing.T) string {
	t.Helper()
	text, err := get(t.Context(), e.metrics)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// scrapeError matches a metric that reports a scrape that has failed.
var scrapeError = regexp.MustCompile(`(?m)^redis_(up 0|exporter_last_scrape_error\S* 1)`)

// runExporter scrapes a site. The metrics must contain those of dashboards, and no command of redis_exporter may fail.
func runExporter(t *testing.T, s site) {
	want := graphed
	if s.name == siteSentinel {
		want = sentinelMetrics
	} else {
		s.server.ask(t, "CL.THROTTLE", s.key("exporter"), "15", "30", "60")
	}
	before := s.server.ask(t, "INFO", "errorstats")
	e := startExporter(t, s)
	e.scrape(t)
	text := e.scrape(t)
	if !strings.Contains(text, "\nredis_up 1\n") || scrapeError.MatchString(text) {
		t.Errorf("redis_exporter reports a failed scrape: %q", scrapeError.FindAllString(text, -1))
	}
	for _, name := range want {
		if !regexp.MustCompile(`(?m)^` + name + `(\{.*\})? \d`).MatchString(text) {
			t.Errorf("the metrics of redis_exporter do not contain %s", name)
		}
	}
	if s.name == siteSentinel {
		return // like the Sentinel of Redis, the port does not have all commands that redis_exporter sends
	}
	if strings.Contains(text, `db="db1"`) {
		t.Error("redis_exporter reports databases that the server does not have")
	}
	if after := s.server.ask(t, "INFO", "errorstats"); before != after {
		t.Errorf("INFO errorstats is %q after the scrapes, want %q as before them", after, before)
	}
}

// TestRedisExporter_Failover scrapes a follower and the leader while the leader is killed and restarted.
func TestRedisExporter_Failover(t *testing.T) {
	c := startTrio(t, usualBeat)
	leader := c.awaitLeader(t)
	at := func(id string) exporter {
		return startExporter(t, site{address: c.at(id, portForAll), password: trioPassword})
	}
	follower, lost := at(otherThan(leader)), at(leader)
	c.kill(t, leader)
	for range 20 { // there is no leader during the first scrapes
		if text := follower.scrape(t); scrapeError.MatchString(text) {
			t.Errorf("a scrape of a follower fails while there is no leader: %q", scrapeError.FindAllString(text, -1))
		}
	}
	if text := lost.scrape(t); !strings.Contains(text, "\nredis_up 0\n") {
		t.Error("the scrape of a node that was killed does not report redis_up 0")
	}
	c.awaitLeader(t) // the node would refuse streams of followers that do not know a new leader yet
	c.restart(t, leader)
	eventually(t, func(context.Context) error {
		if text := lost.scrape(t); !strings.Contains(text, "\nredis_up 1\n") {
			return fmt.Errorf("redis_exporter reports %q after the restart", scrapeError.FindAllString(text, -1))
		}
		return nil
	})
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
