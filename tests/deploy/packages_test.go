//go:build packages

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// builtPackage returns the path of the package with the given extension that "make packages" has built last.
func builtPackage(t *testing.T, extension string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "bin/packages/*."+extension))
	if err != nil || len(found) != 1 {
		t.Fatalf("bin/packages has %d files *.%s, error %v: run make packages-test", len(found), extension, err)
	}
	path, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// machine is a copy of the root directory of this machine, in which packages can be installed.
type machine struct {
	t   *testing.T
	dir string // with the directories of the overlay
}

func newMachine(t *testing.T) machine {
	t.Helper()
	m := machine{t, t.TempDir()}
	for _, name := range []string{"changes", "work", "root"} {
		if err := os.Mkdir(filepath.Join(m.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// A systemctl that records its arguments; the server runs. The file of the run-time directory shows that systemd runs.
	m.run("mkdir -p /run/systemd/system; printf '#!/bin/sh\necho \"$@\" >>/calls\n' >/usr/bin/systemctl; chmod 755 /usr/bin/systemctl; : >/calls")
	return m
}

// run runs a shell script as root on the machine, and returns its output. Changes remain for the next script.
func (m machine) run(script string) string {
	m.t.Helper()
	// The file systems of /tmp and /dev/shm hold the packages and may hold the directories of the overlay.
	const mount = `cd "$0" && mount -t overlay overlay -o lowerdir=/,upperdir=changes,workdir=work root &&
		mount -t proc proc root/proc && mount --rbind /dev root/dev && mount -t tmpfs tmpfs root/run && mkdir -p root/run/systemd/system &&
		cp "$2" root/run/package 2>/dev/null; exec chroot root sh -euc "$1"`
	cmd := exec.Command("unshare", "--mount", "sh", "-c", mount, m.dir, script, os.Getenv("PACKAGE"))
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "PATH=/usr/bin:/usr/sbin:/bin:/sbin")
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// calls returns the calls of systemctl since the last call of this function.
func (m machine) calls() string { return m.run("cat /calls; : >/calls") }

const (
	// permissions prints the owner and the mode of the files of the configuration.
	permissions = "stat -c '%U:%G %a' /etc/throttled /etc/throttled/throttled.conf"
	// startAsUser starts the server as its user, as systemd does, and stops it when it is ready.
	startAsUser = `install -d -o throttled -g throttled -m 750 /var/lib/throttled; cd /var/lib/throttled
		setpriv --reuid throttled --regid throttled --clear-groups /usr/bin/throttled /etc/throttled/throttled.conf --port 0 2>/log &
		pid=$!; tail -f --pid=$pid /log | grep -m 1 msg=ready >/dev/null; kill $pid; wait $pid; touch /var/lib/throttled/state`
)

func (m machine) wants(script, want string) {
	m.t.Helper()
	if got := m.run(script); got != want {
		m.t.Errorf("%s prints %q, want %q", script, got, want)
	}
}

// install installs a package on a new machine, and starts and stops the server.
func install(t *testing.T, path, command string) machine {
	t.Helper()
	t.Setenv("PACKAGE", path)
	m := newMachine(t)
	m.run(command)
	m.wants(permissions, "root:throttled 750\nroot:throttled 640\n")
	if got := m.calls(); strings.Contains(got, "enable") || strings.Contains(got, "start") {
		t.Errorf("the installation calls systemctl with %q: it must neither enable nor start the server", got)
	}
	m.run(startAsUser)
	return m
}

// newerPackage returns a package with a higher version and another configuration file.
func newerPackage(t *testing.T, deb string) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "dpkg-deb", "-R", deb, filepath.Join(dir, "files"))
	run(t, "sed", "-i", "s/^Version: .*/Version: 99/", filepath.Join(dir, "files/DEBIAN/control"))
	run(t, "sed", "-i", "$ a # a new line of version 99", filepath.Join(dir, "files/etc/throttled/throttled.conf"))
	path := filepath.Join(dir, "newer.deb")
	run(t, "dpkg-deb", "-Znone", "-b", filepath.Join(dir, "files"), path)
	return path
}

// TestDeb installs, upgrades, removes and purges the Debian package.
func TestDeb(t *testing.T) {
	deb := builtPackage(t, "deb")
	m := install(t, deb, "dpkg -i /run/package")
	m.run("throttled version; man -w throttled >/dev/null; echo 'maxclients 77' >>/etc/throttled/throttled.conf; chmod 600 /etc/throttled/throttled.conf")

	t.Setenv("PACKAGE", newerPackage(t, deb))
	if got := m.run("dpkg --force-confdef -i /run/package"); !strings.Contains(got, "still runs the previous version") {
		t.Errorf("the upgrade does not ask for a restart:\n%s", got)
	}
	m.wants("grep -c '^maxclients 77' /etc/throttled/throttled.conf; dpkg-query -Wf '${Version}\n' throttled", "1\n99\n")
	m.wants(permissions, "root:throttled 750\nroot:throttled 600\n")
	if got := m.calls(); strings.Contains(got, "start") || strings.Contains(got, "stop") {
		t.Errorf("the upgrade calls systemctl with %q: it must not restart the server", got)
	}

	m.run("dpkg -r throttled; test -f /etc/throttled/throttled.conf; test -f /var/lib/throttled/state; test ! -e /usr/bin/throttled")
	if got := m.calls(); !strings.Contains(got, "disable --now throttled") {
		t.Errorf("the removal calls systemctl with %q: it must stop the server", got)
	}
	m.run("dpkg -P throttled; test ! -e /etc/throttled; test ! -e /var/lib/throttled; getent passwd throttled >/dev/null")
}

// TestPackages_SameBytes checks that a second build of the same commit gives the same bytes, in a copy of the repository
// with another path, other times of files, another umask and another time zone.
func TestPackages_SameBytes(t *testing.T) {
	dir := t.TempDir()
	nfpm, err := filepath.Abs(os.Getenv("NFPM"))
	if err != nil {
		t.Fatal(err)
	}
	const build = `tar -C "$0" --exclude=./bin -cf - . | tar -C "$1" -xmf - && cd "$1" && umask 077 && exec packaging/build.sh packages`
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", build, root, dir)
	cmd.Env = append(os.Environ(), "NFPM="+nfpm, "TZ=Asia/Tokyo")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("packaging/build.sh: %v\n%s", err, out)
	}
	for _, extension := range []string{"deb", "rpm"} {
		first := builtPackage(t, extension)
		second := filepath.Join(dir, "packages", filepath.Base(first))
		if out, err := exec.Command("cmp", first, second).CombinedOutput(); err != nil {
			t.Errorf("two builds of the same commit differ: %v\n%s", err, out)
		}
	}
}

// TestDeb_Lintian checks the package with Debian's checker.
func TestDeb_Lintian(t *testing.T) {
	out := run(t, "lintian", "--allow-root", "--fail-on", "error,warning", builtPackage(t, "deb"))
	if strings.Contains(out, "W:") {
		t.Errorf("lintian prints:\n%s", out)
	}
}

// TestRPM installs and removes the rpm.
func TestRPM(t *testing.T) {
	m := install(t, builtPackage(t, "rpm"), "rpm -i --nodeps /run/package")
	m.run("echo 'maxclients 77' >>/etc/throttled/throttled.conf; rpm -e --nodeps throttled; test ! -e /usr/bin/throttled; grep 'maxclients 77' /etc/throttled/throttled.conf.rpmsave")
	if got := m.calls(); !strings.Contains(got, "disable --now throttled") {
		t.Errorf("the removal calls systemctl with %q: it must stop the server", got)
	}
}
