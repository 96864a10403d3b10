package gatewaystests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

func TestNginx(t *testing.T)             { nginx.test(t) }
func TestHAProxy(t *testing.T)           { haproxy.test(t) }
func TestCaddy(t *testing.T)             { caddy.test(t) }
func TestEnvoyRatelimit(t *testing.T)    { envoyRatelimit.test(t) }
func TestEnvoyExtAuthzHTTP(t *testing.T) { envoyHTTP.test(t) }
func TestEnvoyExtAuthzGRPC(t *testing.T) { envoyGRPC.test(t) }
func TestTraefik(t *testing.T)           { traefik.test(t) }

var (
	nginx = gateway{
		example: "nginx", program: "nginx", args: []string{"-p", ".", "-c", "nginx.conf"},
		undecided: func(s *scene) (int, error) {
			log, err := os.ReadFile(filepath.Join(s.dir, "access.log"))
			return matches(string(log), `" [25]\d\d limiter=([^=]*, )?(5\d\d|-)? decision=`), err
		},
	}
	haproxy = gateway{
		example: "haproxy", program: "haproxy", args: []string{"-db", "-f", "haproxy.cfg"},
		undecided: func(s *scene) (int, error) {
			return matches(s.process.log.String(), `" [25]\d\d limiter=[^ad]`), nil
		},
	}
	caddy = gateway{
		example: "caddy", program: "caddy", args: []string{"run", "--adapter", "caddyfile", "--config", "Caddyfile"},
		undecided: func(s *scene) (int, error) {
			return matches(s.process.log.String(), `"limiter":"unavailable"`), nil
		},
	}
	traefik = gateway{
		example: "traefik", program: "traefik", args: []string{"--configFile=traefik.yaml"}, hidden: true, once: true,
		undecided: func(s *scene) (int, error) {
			return matches(s.process.log.String(), `"OriginStatus":(0|50\d),.*"RouterName":"limiter@file"`), nil
		},
	}

	envoyRatelimit = gateway{
		example: "envoy-ratelimit", program: "envoy", args: envoyArgs, grpc: true, dialect: true,
		undecided: func(s *scene) (int, error) { return s.statistic("cluster.application.ratelimit.error") },
	}
	envoyHTTP = gateway{
		example: "envoy-ext-authz-http", program: "envoy", args: envoyArgs,
		undecided: func(s *scene) (int, error) { return s.statistic("http.site.ext_authz.error") },
	}
	envoyGRPC = gateway{
		example: "envoy-ext-authz-grpc", program: "envoy", args: envoyArgs, grpc: true,
		undecided: func(s *scene) (int, error) { return s.statistic("http.site.ext_authz.error") },
	}
)

var all = []gateway{nginx, haproxy, caddy, envoyRatelimit, envoyHTTP, envoyGRPC, traefik}

// envoyArgs are the arguments of Envoy. Several processes on a machine require different base ids.
var envoyArgs = []string{"-c", "envoy.yaml", "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warning"}

func matches(text, pattern string) int {
	return len(regexp.MustCompile(pattern).FindAllString(text, -1))
}

// statistic returns a counter of Envoy.
func (s *scene) statistic(name string) (int, error) {
	text, err := fetch(fmt.Sprintf("http://127.0.0.1:%d/stats", s.ports[adminPort]))
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `: (\d+)$`).FindStringSubmatch(text)
	if found == nil {
		return 0, nil // a counter that has not been used yet
	}
	return strconv.Atoi(found[1])
}
