//go:build helm

package deploy

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/throttledhq/throttled/cluster/transport/certs"
	"github.com/throttledhq/throttled/internal/tlstest"
)

// chartCluster is the nodes of the chart, in containers that reach each other by the names of the pods.
type chartCluster struct {
	lab        *lab
	secrets    map[string]map[string]string // values by the name of the secret and the key
	containers []*container
	servers    []*server
}

// newChartCluster starts the nodes with the files and variables of a rendered chart. names has the names for certificates, and
// secrets the secrets other than those for the nodes.
func newChartCluster(t *testing.T, r *release, secrets map[string]map[string]string, names ...string) *chartCluster {
	t.Helper()
	hosts := map[string]string{}
	for i := range int(*r.set.Spec.Replicas) {
		hosts[fmt.Sprintf("throttled-%d.throttled-nodes.limits.svc.cluster.local", i)] = address(i)
	}
	c := &chartCluster{lab: newLab(t, hosts), secrets: secrets}
	issuer := c.lab.newContainer(nil)
	issuer.run(append([]string{"certs", "--dir", "/certs", "--cluster", "throttled"}, names...)...)
	c.secrets["certs"] = map[string]string{}
	for _, path := range files(t, filepath.Join(issuer.root, "certs")) {
		c.secrets["certs"][filepath.Base(path)] = readFile(t, path)
	}
	for i := range len(hosts) {
		c.containers = append(c.containers, c.newPod(t, r, i))
		c.servers = append(c.servers, c.containers[i].start(r.container().Args...))
	}
	for i := range c.containers {
		c.containers[i].awaitHealth(c.servers[i])
	}
	return c
}

// files returns the paths of the files in a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// newPod returns the container of pod number i, with an empty volume for data.
func (c *chartCluster) newPod(t *testing.T, r *release, i int) *container {
	t.Helper()
	pod := fmt.Sprintf("throttled-%d", i)
	env := imageEnv(t)
	env["THROTTLED_CONFIG"] = r.container().Args[0] // for the health check of the tests
	env["THROTTLED_BIND"] = address(i)              // the pods have addresses of their own, but one network
	container := c.lab.newContainer(pairs(env))
	for _, m := range r.container().VolumeMounts {
		for path, text := range c.volume(t, r, m.Name) {
			below := strings.ReplaceAll(m.SubPathExpr, "$(POD_NAME)", pod)
			if rest, ok := strings.CutPrefix(path, below); ok {
				container.write(m.MountPath+rest, strings.ReplaceAll(text, "0.0.0.0:", address(i)+":"))
			}
		}
	}
	return container
}

// volume returns the files of a volume of the pods by their paths, which begin with a slash unless they are the names of files
// that are mounted alone.
func (c *chartCluster) volume(t *testing.T, r *release, name string) map[string]string {
	t.Helper()
	found := map[string]string{}
	add := func(secret, prefix string, items []corev1.KeyToPath) {
		for _, item := range items {
			text, ok := c.secrets[secret][item.Key]
			if !ok {
				t.Errorf("the volume %s needs the key %s of the secret %q", name, item.Key, secret)
			}
			found[prefix+item.Path] = text
		}
	}
	for _, v := range r.set.Spec.Template.Spec.Volumes {
		switch {
		case v.Name != name:
		case v.ConfigMap != nil:
			found = r.configs[v.ConfigMap.Name].Data
		case v.Secret != nil:
			add(v.Secret.SecretName, "", v.Secret.Items)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				add(s.Secret.Name, "/", s.Secret.Items)
			}
		}
	}
	return found
}

// TestChart_Runs starts the nodes, and replaces one whose volume is lost by one with another name, as docs/kubernetes.md
// describes.
func TestChart_Runs(t *testing.T) {
	r := render(t, "config=maxmemory 100mb")
	passwords := map[string]map[string]string{"password": {"password": composePassword + "\n"}}
	c := newChartCluster(t, r, passwords, "throttled-0", "throttled-1", "throttled-2", "throttled-1b")
	if got := c.lab.ask(address(1), composePassword, "CL.THROTTLE", "k", "9", "1", "3600"); !strings.HasPrefix(got, "0\n10\n9\n") {
		t.Errorf("the reply is %q, want an admitted request", got)
	}
	if got := c.lab.ask(address(0), composePassword, "CL.CLUSTER", "REMOVE", "throttled-1"); got != "OK" {
		t.Fatalf("CL.CLUSTER REMOVE returns %q", got)
	}
	<-c.servers[1].done // a removed node exits

	r = render(t, "config=maxmemory 100mb", "nodeIDs.1=throttled-1b")
	pod := c.newPod(t, r, 1)
	pod.awaitHealth(pod.start(r.container().Args...))
	if got := c.lab.ask(address(0), composePassword, "CL.CLUSTER", "NODES"); !strings.Contains(got, "throttled-1b") {
		t.Errorf("the new node is not a member:\n%s", got)
	}
	if got := c.lab.ask(address(1), composePassword, "CL.THROTTLE", "k", "9", "1", "3600"); !strings.HasPrefix(got, "0\n10\n8\n") {
		t.Errorf("the reply of the new node is %q, want the state of the cluster", got)
	}
}

// serialOf returns the serial number of a certificate as openssl prints it.
func serialOf(t *testing.T, p certs.Pair) string {
	t.Helper()
	block, _ := pem.Decode(p.Cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certs.SerialOf(cert)
}

// TestChart_TLSRuns starts nodes with users and with TLS beside the plain port. A client with a certificate is logged in as the
// user with its name, and one without a certificate, or with a revoked one, is refused.
func TestChart_TLSRuns(t *testing.T) {
	site := tlstest.New(t)
	app := site.Issue("app")
	site.Replace("app", app)
	gone := site.Issue("gone")
	site.Replace("gone", gone)
	c := newChartCluster(t, render(t, tlsSettings...), map[string]map[string]string{
		"users":   {"users.acl": "user default on nopass -@all +ping +info +hello\nuser app on >secret ~app:* +cl.throttle\n"},
		"tls":     {"tls.crt": readFile(t, site.Path("server.pem")), "tls.key": readFile(t, site.Path("server-key.pem"))},
		"ca":      {"ca.crt": readFile(t, site.Path("ca.pem"))},
		"revoked": {"revoked.txt": serialOf(t, gone) + "\n"},
	}, "throttled-0", "throttled-1", "throttled-2")
	cli := []string{"redis-cli", "-h", address(1), "-p", "6390", "--tls", "--cacert", site.Path("ca.pem")}
	identity := []string{"--cert", site.Path("app.pem"), "--key", site.Path("app-key.pem")}
	for key, want := range map[string]string{"app:k": "0\n10\n9\n", "other": "NOPERM"} {
		got := c.lab.run(slices.Concat(cli, identity, []string{"CL.THROTTLE", key, "9", "1", "3600"})...)
		if !strings.HasPrefix(got, want) {
			t.Errorf("the reply for the key %s is %q, want %q", key, got, want)
		}
	}
	for name, more := range map[string][]string{
		"without a certificate":      nil,
		"with a revoked certificate": {"--cert", site.Path("gone.pem"), "--key", site.Path("gone-key.pem")},
	} {
		if out, err := c.lab.command(slices.Concat(cli, more, []string{"PING"})...).CombinedOutput(); err == nil && strings.Contains(string(out), "PONG") {
			t.Errorf("a client %s is accepted", name)
		}
	}
	if _, err := os.Stat(filepath.Join(c.containers[0].root, "password")); err == nil {
		t.Error("a volume for the password is mounted, although users.secret replaces it")
	}
}
