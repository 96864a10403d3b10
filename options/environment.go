package options

import (
	"regexp"
	"strings"

	"github.com/throttledhq/throttled/internal/nearest"
)

const envPrefix = "THROTTLED_"

// envName returns the environment variable of an option.
func envName(option string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// LookupIn returns a function like os.LookupEnv for environ, a list like that of os.Environ.
func LookupIn(environ []string) func(name string) (string, bool) {
	values := map[string]string{}
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok {
			values[name] = value
		}
	}
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}

// Kubernetes sets these variables in each container, for each service of its namespace. For a service that is named
// throttled, or that begins with throttled-, they begin with envPrefix. No option has such a name, except the port in
// the form of an address.
var (
	serviceName    = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?$`)
	serviceAddress = regexp.MustCompile(`^(tcp|udp|sctp)://.*:[0-9]+$`)
)

// isService reports whether a variable describes a service of Kubernetes. THROTTLED_PORT=tcp://10.0.0.1:6380 is the
// address of a service named throttled, and not the option port.
func isService(name, value string) bool {
	return serviceName.MatchString(name) || strings.HasSuffix(name, "_PORT") && serviceAddress.MatchString(value)
}

// Unknown is an environment variable that looks like an option, but is none.
type Unknown struct {
	Name string
	Near string // the variable that was probably meant, or ""
}

// UnknownEnv returns the variables of environ, a list like that of os.Environ, that begin with THROTTLED_ and belong to
// no option. It omits the variables that Kubernetes sets for services.
func UnknownEnv(environ []string) (list []Unknown) {
	choices := append(names(), "config")
	known := map[string]bool{}
	for _, name := range choices {
		known[envName(name)] = true
	}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		option, ours := strings.CutPrefix(name, envPrefix)
		if !ours || known[name] || isService(name, value) {
			continue
		}
		u := Unknown{Name: name}
		if near := nearest.Word(strings.ReplaceAll(option, "_", "-"), choices); near != "" {
			u.Near = envName(near)
		}
		list = append(list, u)
	}
	return list
}
