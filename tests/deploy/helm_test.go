//go:build helm

package deploy

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// secrets are the settings without defaults.
var secrets = []string{"certificates.secret=certs", "password.secret=password"}

// helm runs "helm template" with settings in the form NAME=VALUE.
func helm(t *testing.T, settings ...string) (string, error) {
	t.Helper()
	args := []string{"template", "throttled", filepath.Join(root, "deploy/helm/throttled"), "--namespace", "limits", "--kube-version", "1.33.0"}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	cmd := exec.Command(os.Getenv("HELM"), args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// release is a rendered chart.
type release struct {
	set      appsv1.StatefulSet
	services map[string]corev1.Service
	configs  map[string]corev1.ConfigMap
	budget   policyv1.PodDisruptionBudget
	policy   networkingv1.NetworkPolicy
	monitor  serviceMonitor
}

// serviceMonitor has the fields of a ServiceMonitor of the Prometheus operator that the chart uses.
type serviceMonitor struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Selector struct {
			MatchLabels map[string]string `json:"matchLabels"`
		} `json:"selector"`
		Endpoints []struct {
			Port          string `json:"port"`
			Path          string `json:"path"`
			Interval      string `json:"interval"`
			Authorization struct {
				Type        string                   `json:"type"`
				Credentials corev1.SecretKeySelector `json:"credentials"`
			} `json:"authorization"`
			BasicAuth struct {
				Username corev1.SecretKeySelector `json:"username"`
				Password corev1.SecretKeySelector `json:"password"`
			} `json:"basicAuth"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// render renders the chart, and decodes each object. A field that the type of an object does not have fails the test.
func render(t *testing.T, settings ...string) *release {
	t.Helper()
	text, err := helm(t, append(slices.Clone(secrets), settings...)...)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, text)
	}
	r := &release{services: map[string]corev1.Service{}, configs: map[string]corev1.ConfigMap{}}
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		r.decode(t, head.Kind, []byte(document))
	}
	return r
}

func (r *release) decode(t *testing.T, kind string, document []byte) {
	t.Helper()
	into := func(object any) {
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Fatalf("decode %s: %v\n%s", kind, err, document)
		}
	}
	switch kind {
	case "":
	case "StatefulSet":
		into(&r.set)
	case "Service":
		var s corev1.Service
		into(&s)
		r.services[s.Name] = s
	case "ConfigMap":
		var c corev1.ConfigMap
		into(&c)
		r.configs[c.Name] = c
	case "PodDisruptionBudget":
		into(&r.budget)
	case "NetworkPolicy":
		into(&r.policy)
	case "ServiceMonitor":
		into(&r.monitor)
	default:
		t.Errorf("the chart has an object of kind %s, which the tests do not check", kind)
	}
}

func (r *release) container() corev1.Container { return r.set.Spec.Template.Spec.Containers[0] }

// TestChart checks that the objects of the chart refer to each other, with the default settings.
func TestChart(t *testing.T) {
	r := render(t)
	labels := r.set.Spec.Template.Labels
	for what, selector := range map[string]map[string]string{
		"the stateful set":      r.set.Spec.Selector.MatchLabels,
		"the disruption budget": r.budget.Spec.Selector.MatchLabels,
		"the headless service":  r.services["throttled-nodes"].Spec.Selector,
		"the service":           r.services["throttled"].Spec.Selector,
		"the anti-affinity":     r.set.Spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels,
	} {
		if len(selector) == 0 || !maps.Equal(selector, labels) {
			t.Errorf("%s selects %v, the pods have %v", what, selector, labels)
		}
	}
	nodes := r.services["throttled-nodes"].Spec
	if r.set.Spec.ServiceName != "throttled-nodes" || nodes.ClusterIP != "None" || !nodes.PublishNotReadyAddresses {
		t.Error("the pods have no names before they are ready, which a new cluster needs")
	}
	if *r.set.Spec.Replicas != 3 || r.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		t.Error("the nodes of a new cluster do not start in parallel, or they are not three")
	}
	if *r.budget.Spec.MaxUnavailable != intstr.FromInt32(1) {
		t.Errorf("the disruption budget permits %v unavailable pods, want 1", r.budget.Spec.MaxUnavailable)
	}
	if enabled := r.set.Spec.Template.Spec.EnableServiceLinks; enabled == nil || *enabled {
		t.Error("the variables of services are set, such as THROTTLED_PORT")
	}
	if r.policy.Name != "" || r.monitor.Metadata.Name != "" {
		t.Error("the network policy or the service monitor is not optional")
	}
}

// TestChart_Pod checks the probes, the restrictions and the mounts of a pod.
func TestChart_Pod(t *testing.T) {
	r := render(t)
	pod, c := r.set.Spec.Template.Spec, r.container()
	if !*pod.SecurityContext.RunAsNonRoot || fmt.Sprint(*pod.SecurityContext.RunAsUser) != user || *c.SecurityContext.AllowPrivilegeEscalation ||
		!*c.SecurityContext.ReadOnlyRootFilesystem || !slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("the restrictions of the pod are %+v and %+v", pod.SecurityContext, c.SecurityContext)
	}
	named := map[string]bool{}
	for _, port := range c.Ports {
		named[port.Name] = true
	}
	for path, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe.HTTPGet == nil || probe.HTTPGet.Path != path || !named[probe.HTTPGet.Port.StrVal] {
			t.Errorf("a probe does not request %s of a port of the container: %+v", path, probe)
		}
	}
	volumes := map[string]bool{"data": r.set.Spec.VolumeClaimTemplates[0].Name == "data"}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("no volume %s is declared", m.Name)
		}
	}
}

// TestChart_Options checks the objects of optional settings.
func TestChart_Options(t *testing.T) {
	r := render(t, "networkPolicy.enabled=true", "networkPolicy.clients[0].podSelector.matchLabels.app=shop", "serviceMonitor.enabled=true",
		"antiAffinity=preferred", "ports.grpc=6383", "ports.cluster=6384", "replicas=5", "nodeIDs.1=throttled-1b", "rules=version: 1")
	service := r.services["throttled"]
	selector := r.monitor.Spec.Selector.MatchLabels
	for name, value := range selector {
		if service.Labels[name] != value {
			t.Errorf("the service monitor selects %s=%s, the service has %v", name, value, service.Labels)
		}
	}
	if maps.Equal(selector, r.services["throttled-nodes"].Labels) {
		t.Error("the service monitor selects the headless service too")
	}
	served := map[string]bool{}
	for _, port := range service.Spec.Ports {
		served[port.Name] = true
	}
	if !served[r.monitor.Spec.Endpoints[0].Port] || !served["grpc"] || !served["cluster"] || served["raft"] {
		t.Errorf("the service has the ports %v", served)
	}
	if rules := r.policy.Spec.Ingress; len(rules) != 2 || rules[0].Ports[0].Port.StrVal != "raft" || rules[0].From[0].PodSelector.MatchLabels["app.kubernetes.io/name"] != "throttled" ||
		len(rules[1].Ports) != 4 || rules[1].From[0].PodSelector.MatchLabels["app"] != "shop" {
		t.Errorf("the network policy is %+v", rules)
	}
	if config := r.configs["throttled"].Data["throttled-1.conf"]; !strings.Contains(config, "node-id throttled-1b\n") || !strings.Contains(config, "\njoin ") || strings.Contains(config, "bootstrap") {
		t.Errorf("a node that replaces another one does not join:\n%s", config)
	}
	if a := r.monitor.Spec.Endpoints[0].Authorization; a.Type != "Bearer" || a.Credentials.Name != "password" || a.Credentials.Key != "password" {
		t.Errorf("the service monitor sends the password %+v", a)
	}
	if len(r.configs["throttled"].Data) != 5 || r.configs["throttled-rules"].Data["rules.yaml"] == "" {
		t.Errorf("the maps of files are %v", r.configs)
	}
}

// TestChart_Documented renders the chart with the settings of each "helm install" in docs/kubernetes.md.
func TestChart_Documented(t *testing.T) {
	text := strings.ReplaceAll(read(t, "docs/kubernetes.md"), "\\\n", "")
	commands := regexp.MustCompile(`(?m)^ +helm install throttled deploy/helm/throttled (.*)$`).FindAllStringSubmatch(text, -1)
	if len(commands) < 2 {
		t.Fatalf("docs/kubernetes.md has %d commands \"helm install\", want at least 2", len(commands))
	}
	for _, c := range commands {
		settings := strings.Fields(strings.ReplaceAll(c[1], "--set", ""))
		if out, err := helm(t, settings...); err != nil {
			t.Errorf("helm template with the settings %q: %v\n%s", settings, err, out)
		}
	}
}

// TestChart_Refused checks that wrong settings are refused with the name of the setting.
func TestChart_Refused(t *testing.T) {
	const tls = "tls.ports.redis=6390"
	for settings, want := range map[string]string{
		"certificates.secret=":  "certificates.secret",
		"password.secret=":      "password.secret",
		"replicas=2":            "replicas",
		"antiAffinity=none":     "antiAffinity",
		"ports.http=0":          "/ports/http",
		"ports.redis=0":         "tls.ports.redis",
		"ports.redis=70000":     "/ports/redis",
		"nodeIDs.7=throttled-7": "/nodeIDs",
		"tsl.secret=t":          "tsl",
		tls:                     "tls.secret",
		"tls.secret=t":          "tls.ports",
		"tls.secret=t " + tls:   "tls.clientCA.secret",
		"tls.revoked.secret=r":  "tls.revoked.secret",
		"tls.secret=t tls.revoked.secret=r tls.authClients=no " + tls: "tls.revoked.secret",
		"tls.secret=t tls.authClients=true " + tls:                    "/tls/authClients",
		"tls.secret=t tls.protocols=TLSv1.1 " + tls:                   "/tls/protocols",
	} {
		if out, err := helm(t, append(slices.Clone(secrets), strings.Fields(settings)...)...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: error %v, want one that names %s:\n%s", settings, err, want, out)
		}
	}
}
