package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// instruction is a line of the Dockerfile.
type instruction struct{ name, args string }

// finalStage returns the instructions of the last stage of the Dockerfile.
func finalStage(t *testing.T) (stage []instruction) {
	t.Helper()
	text := strings.ReplaceAll(read(t, "Dockerfile"), "\\\n", "")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		if name == "FROM" {
			stage = nil
		}
		stage = append(stage, instruction{name, args})
	}
	return stage
}

// imageEnv returns the environment of the image.
func imageEnv(t *testing.T) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, i := range finalStage(t) {
		if i.name != "ENV" {
			continue
		}
		for _, pair := range strings.Fields(i.args) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
	}
	return env
}

// TestDockerfile checks the properties of the image that its users rely on.
func TestDockerfile(t *testing.T) {
	args := map[string]string{}
	for _, i := range finalStage(t) {
		args[i.name] = i.args
	}
	for name, want := range map[string]string{"FROM": "scratch", "USER": user + ":" + user, "ENTRYPOINT": `["/throttled"]`, "VOLUME": "/data"} {
		if args[name] != want {
			t.Errorf("%s %s, want %s", name, args[name], want)
		}
	}
	_, list, _ := strings.Cut(args["HEALTHCHECK"], "CMD ")
	var command []string
	if err := json.Unmarshal([]byte(list), &command); err != nil || !slices.Equal(command, []string{"/throttled", "health"}) {
		t.Errorf("HEALTHCHECK runs %q, error %v; want /throttled health", command, err)
	}
}

// TestImage runs the program as in the image: in an empty root directory, without privileges, with the environment of
// the image only. The health check must fail before the server is ready.
func TestImage(t *testing.T) {
	l := newLab(t, nil)
	env := imageEnv(t)
	c := l.newContainer(pairs(env))
	if out, err := c.command("health").CombinedOutput(); err == nil {
		t.Errorf("throttled health succeeds without a server: %s", out)
	}
	s := c.start()
	c.awaitHealth(s)
	if got := l.ask("127.0.0.1", "", "CL.THROTTLE", "k", "0", "1", "60"); !strings.HasPrefix(got, "0\n") {
		t.Errorf("the reply is %q, want an admitted request", got)
	}
	if got := l.ask("127.0.0.1", "", "SAVE"); got != "OK" {
		t.Errorf("SAVE returns %q: the directory of snapshots is not writable", got)
	}
}

// pairs returns an environment as a list of NAME=VALUE.
func pairs(env map[string]string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// compose is the part of a compose file that the tests use.
type compose struct {
	Services map[string]struct {
		Image       string            `yaml:"image"`
		Command     []string          `yaml:"command"`
		Environment map[string]string `yaml:"environment"`
		Volumes     []string          `yaml:"volumes"`
		Ports       []string          `yaml:"ports"`
	} `yaml:"services"`
	Volumes map[string]any `yaml:"volumes"`
}

const composePassword = "secret"

func parseCompose(t *testing.T) (c compose) {
	t.Helper()
	required := regexp.MustCompile(`\$\{THROTTLED_REQUIREPASS:\?[^}]*\}`)
	text := required.ReplaceAllString(read(t, "deploy/compose/compose.yaml"), composePassword)
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCompose checks that ports of the host are on loopback and used once, and that all volumes are declared.
func TestCompose(t *testing.T) {
	c := parseCompose(t)
	used := map[string]bool{}
	for name, s := range c.Services {
		if s.Image != "throttled" {
			t.Errorf("service %s has the image %q", name, s.Image)
		}
		for _, port := range s.Ports {
			host, _, _ := strings.Cut(strings.TrimPrefix(port, "127.0.0.1:"), ":")
			if !strings.HasPrefix(port, "127.0.0.1:") || used[host] {
				t.Errorf("service %s: port %s is not on loopback, or used twice", name, port)
			}
			used[host] = true
		}
		for _, v := range s.Volumes {
			volume, _, _ := strings.Cut(v, ":")
			if _, ok := c.Volumes[volume]; !ok {
				t.Errorf("service %s: volume %s is not declared", name, volume)
			}
		}
	}
}

// TestCompose_Runs runs the services in containers that reach each other by name, twice: the second start finds the
// certificates and the data of the first one. The last node starts after the others have tried to reach it.
func TestCompose_Runs(t *testing.T) {
	c := parseCompose(t)
	nodes := []string{"n1", "n2", "n3"}
	hosts := map[string]string{}
	for i, name := range nodes {
		hosts[name] = address(i)
	}
	l := newLab(t, hosts)
	containers := make([]*container, len(nodes))
	for i, name := range nodes {
		env := imageEnv(t)
		maps.Copy(env, c.Services[name].Environment)
		env["THROTTLED_BIND"] = address(i) // the containers have addresses of their own, but one network
		containers[i] = l.newContainer(pairs(env))
	}
	for range 2 {
		t.Logf("%s", containers[0].run(c.Services["certs"].Command...))
		servers := make([]*server, len(nodes))
		for i := range nodes {
			if i > 0 {
				run(t, "cp", "-a", containers[0].root+"/certs", containers[i].root+"/")
			}
			servers[i] = containers[i].start()
		}
		for i := range nodes {
			containers[i].awaitHealth(servers[i])
		}
		if got := l.ask(address(1), composePassword, "CL.THROTTLE", "k", "9", "1", "3600"); !strings.HasPrefix(got, "0\n10\n") {
			t.Errorf("the reply is %q, want an admitted request", got)
		}
		for i, name := range nodes {
			l.ask(address(i), composePassword, "SHUTDOWN")
			select {
			case <-servers[i].done:
			case <-t.Context().Done():
				t.Fatal(fmt.Sprint(name, " does not stop"))
			}
		}
	}
}
