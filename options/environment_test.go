package options

import (
	"slices"
	"testing"
)

// kubernetes is the environment that Kubernetes sets in each container for services with the names throttled and
// throttled-http, whose ports 6380 and 6381 are named.
var kubernetes = []string{
	"THROTTLED_SERVICE_HOST=10.96.0.7",
	"THROTTLED_SERVICE_PORT=6380",
	"THROTTLED_SERVICE_PORT_RESP=6380",
	"THROTTLED_PORT=tcp://10.96.0.7:6380",
	"THROTTLED_PORT_6380_TCP=tcp://10.96.0.7:6380",
	"THROTTLED_PORT_6380_TCP_PROTO=tcp",
	"THROTTLED_PORT_6380_TCP_PORT=6380",
	"THROTTLED_PORT_6380_TCP_ADDR=10.96.0.7",
	"THROTTLED_HTTP_SERVICE_HOST=fd00::7",
	"THROTTLED_HTTP_SERVICE_PORT=6381",
	"THROTTLED_HTTP_SERVICE_PORT_HTTP_API=6381",
	"THROTTLED_HTTP_PORT=tcp://[fd00::7]:6381",
	"THROTTLED_HTTP_PORT_6381_UDP=udp://[fd00::7]:6381",
	"THROTTLED_HTTP_PORT_6381_UDP_ADDR=fd00::7",
}

// TestLoad_IgnoresServices checks that the addresses of services do not set ports, and that numbers do.
func TestLoad_IgnoresServices(t *testing.T) {
	s, err := Load(nil, LookupIn(kubernetes))
	if err != nil {
		t.Fatalf("Load with the variables of services: %v", err)
	}
	if got, want := s.Get(), Default(); got.Port != want.Port || got.HTTPPort != want.HTTPPort {
		t.Errorf("the ports are %d and %d, want the defaults %d and %d", got.Port, got.HTTPPort, want.Port, want.HTTPPort)
	}
	s, err = Load(nil, LookupIn(append(slices.Clone(kubernetes), "THROTTLED_PORT=7000", "THROTTLED_HTTP_PORT=7001")))
	if err != nil || s.Get().Port != 7000 || s.Get().HTTPPort != 7001 {
		t.Errorf("a container that sets its ports has an error or other ports: %v", err)
	}
	for _, value := range []string{"tcp://", "http://10.96.0.7:6380", "tcp:6380", ""} {
		if _, err := Load(nil, LookupIn([]string{"THROTTLED_PORT=" + value})); err == nil {
			t.Errorf("THROTTLED_PORT=%s: no error", value)
		}
	}
}

func TestUnknownEnv(t *testing.T) {
	environ := append([]string{
		"PATH=/bin", "THROTTLED=x", "throttled_prot=1", "THROTTLED_CONFIG=/etc/throttled.conf", "THROTTLED_REQUIREPASS=secret", "THROTTLED_MAXMEMORY=1gb",
		"THROTTLED_MAX_MEMORY=1gb", "THROTTLED_PROT=7000", "THROTTLED_CONFG=x", "THROTTLED_QUITE_ANOTHER_THING=x", "THROTTLED_=x", "THROTTLED_SERVICE_HOST_=x",
	}, kubernetes...)
	want := []Unknown{
		{"THROTTLED_MAX_MEMORY", "THROTTLED_MAXMEMORY"}, {"THROTTLED_PROT", "THROTTLED_PORT"}, {"THROTTLED_CONFG", "THROTTLED_CONFIG"},
		{"THROTTLED_QUITE_ANOTHER_THING", ""}, {"THROTTLED_", ""}, {"THROTTLED_SERVICE_HOST_", ""},
	}
	if got := UnknownEnv(environ); !slices.Equal(got, want) {
		t.Errorf("UnknownEnv = %q, want %q", got, want)
	}
}

// TestUnknownEnv_Options checks that the variable of each option is known, and that it is not a variable of a service.
func TestUnknownEnv_Options(t *testing.T) {
	for _, name := range names() {
		if got := UnknownEnv([]string{envName(name) + "=1"}); got != nil || isService(envName(name), "1") {
			t.Errorf("%s is reported as unknown, or taken for a variable of a service: %q", envName(name), got)
		}
	}
}
