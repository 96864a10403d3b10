//go:build helm

package deploy

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// tlsSettings render the chart with users and with TLS for Redis clients, beside the plain port.
var tlsSettings = []string{
	"password.secret=", "users.secret=users", "tls.secret=tls", "tls.clientCA.secret=ca", "tls.revoked.secret=revoked", "tls.authClientsUser=CN", "tls.ports.redis=6390", "config=maxmemory 100mb",
}

// configured returns the options in the configuration file of the first node, by name.
func (r *release) configured() map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(r.configs["throttled"].Data["throttled-0.conf"]) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		values[name] = value
	}
	return values
}

// mounted returns the paths of the files of secrets in the first pod, with the name of the secret and its key.
func (r *release) mounted() map[string]string {
	found := map[string]string{}
	for _, m := range r.container().VolumeMounts {
		for _, v := range r.set.Spec.Template.Spec.Volumes {
			if v.Name != m.Name || v.Projected == nil {
				continue
			}
			for _, s := range v.Projected.Sources {
				for _, item := range s.Secret.Items {
					found[path.Join(m.MountPath, item.Path)] = s.Secret.Name + "/" + item.Key
				}
			}
		}
	}
	return found
}

// TestChart_Secrets checks the options of files with secrets, with and without each setting, and that each file is mounted.
func TestChart_Secrets(t *testing.T) {
	const option, server, clients = "requirepass-file", "tls.secret=t", "tls.clientCA.secret=ca"
	for _, c := range []struct {
		settings []string
		want     map[string]string // secret and key by option
	}{
		{nil, map[string]string{option: "password/password"}},
		{[]string{"password.key=word"}, map[string]string{option: "password/word"}},
		{[]string{"password.secret=", "password.allowWithout=true"}, nil},
		{[]string{"password.secret=", "users.secret=u", "users.key=a"}, map[string]string{"aclfile": "u/a"}},
		{[]string{"users.secret=u"}, map[string]string{option: "password/password", "aclfile": "u/users.acl"}},
		{
			[]string{server, clients, "tls.ports.http=6391", "tls.clientCA.key=clients.pem"},
			map[string]string{option: "password/password", "tls-cert-file": "t/tls.crt", "tls-key-file": "t/tls.key", "tls-ca-cert-file": "ca/clients.pem"},
		},
		{
			[]string{server, clients, "tls.ports.http=6391", "tls.revoked.secret=r", "tls.revoked.key=list"},
			map[string]string{
				option: "password/password", "tls-cert-file": "t/tls.crt", "tls-key-file": "t/tls.key", "tls-ca-cert-file": "ca/ca.crt", "tls-revoked-file": "r/list",
			},
		},
		{
			[]string{server, "tls.authClients=no", "tls.ports.grpc=6393", "tls.certKey=c", "tls.keyKey=k"},
			map[string]string{option: "password/password", "tls-cert-file": "t/c", "tls-key-file": "t/k"},
		},
	} {
		r := render(t, c.settings...)
		mounted, configured := r.mounted(), r.configured()
		for _, name := range []string{option, "aclfile", "tls-cert-file", "tls-key-file", "tls-ca-cert-file", "tls-revoked-file"} {
			if got := mounted[configured[name]]; got != c.want[name] {
				t.Errorf("%q: %s is %q, from the secret %q; want %q", c.settings, name, configured[name], got, c.want[name])
			}
		}
		if len(mounted) != len(c.want) {
			t.Errorf("%q: the files %v are mounted, want %d", c.settings, mounted, len(c.want))
		}
	}
}

// TestChart_TLSPorts checks that each port with TLS has its option, and is a port of the container, of the service and of the
// network policy.
func TestChart_TLSPorts(t *testing.T) {
	options := map[string]string{
		"redis": "tls-port", "http": "tls-http-port", "grpc": "tls-grpc-port", "cluster": "tls-cluster-port", "sentinel": "tls-sentinel-port", "leader": "tls-leader-port",
	}
	for name, option := range options {
		settings := []string{"tls.secret=t", "tls.authClients=no", "tls.ports." + name + "=7000", "networkPolicy.enabled=true"}
		if name == "redis" {
			settings = append(settings, "ports.redis=0")
		}
		r := render(t, settings...)
		for _, other := range options {
			if got, want := r.configured()[other], map[bool]string{true: "7000", false: "0"}[other == option]; got != want {
				t.Errorf("tls.ports.%s: %s is %s, want %s", name, other, got, want)
			}
		}
		var container, service, policy []string
		for _, p := range r.container().Ports {
			container = append(container, p.Name)
		}
		for _, p := range r.services["throttled"].Spec.Ports {
			service = append(service, p.Name)
		}
		for _, p := range r.policy.Spec.Ingress[1].Ports {
			policy = append(policy, p.Port.StrVal)
		}
		for where, names := range map[string][]string{"container": container, "service": service, "network policy": policy} {
			if !slices.Contains(names, "tls-"+name) || slices.Contains(names, "redis") == (name == "redis") {
				t.Errorf("tls.ports.%s: the %s has the ports %q", name, where, names)
			}
		}
	}
}

// TestChart_WithoutTLS checks that no option of TLS for clients is set by default.
func TestChart_WithoutTLS(t *testing.T) {
	for name, value := range render(t).configured() {
		if strings.HasPrefix(name, "tls-") {
			t.Errorf("the configuration has the option %s %s", name, value)
		}
	}
}

// schema is a part of values.schema.json.
type schema struct {
	Properties map[string]schema `json:"properties"`
}

// TestChart_Schema checks that each setting of the schema has a default in values.yaml. Helm checks the opposite.
func TestChart_Schema(t *testing.T) {
	var s schema
	if err := json.Unmarshal([]byte(read(t, "deploy/helm/throttled/values.schema.json")), &s); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "deploy/helm/throttled/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	delete(s.Properties, "global") // of Helm
	if got := s.check(t, "", values); got < 60 {
		t.Errorf("the schema has %d settings, want at least 60", got)
	}
}

// check reports settings without a default below a path, and returns the number of settings.
func (s schema) check(t *testing.T, path string, values map[string]any) int {
	t.Helper()
	settings := len(s.Properties)
	for name, below := range s.Properties {
		value, ok := values[name]
		if !ok {
			t.Errorf("values.yaml has no setting %s.%s, which the schema has", path, name)
		}
		group, _ := value.(map[string]any)
		settings += below.check(t, path+"."+name, group)
	}
	return settings
}

// TestChart_MonitorUser checks that Prometheus can log in as a user.
func TestChart_MonitorUser(t *testing.T) {
	endpoint := render(t, "serviceMonitor.enabled=true", "serviceMonitor.userSecret=monitor").monitor.Spec.Endpoints[0]
	if b := endpoint.BasicAuth; b.Username.Name != "monitor" || b.Username.Key != "username" || b.Password.Name != "monitor" || b.Password.Key != "password" {
		t.Errorf("the service monitor logs in with %+v", b)
	}
	if endpoint.Authorization.Type != "" {
		t.Error("the service monitor also sends the password of the user default")
	}
}
