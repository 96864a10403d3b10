package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/throttledhq/throttled/cluster/transport/certs"
	"github.com/throttledhq/throttled/internal/tlstest"
)

// command runs a command of the program, and adds the output.
func (c *canary) command(args ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Errorf("%q: %v: %s", args, err, out)
	}
	c.add(string(out))
}

// clusterPages are the commands that show the state of a cluster. Those that change the members fail.
var clusterPages = []string{
	"CL.CLUSTER STATUS", "CL.CLUSTER NODES", "CL.CLUSTER HASH", "CL.CLUSTER HELP", "CL.CLUSTER ADD n9 nowhere", "CL.CLUSTER REMOVE n9", "CL.CLUSTER SET raft-heartbeat x",
	"CL.CLUSTER TRANSFER n9", "ROLE", "CLUSTER NODES", "CLUSTER INFO", "CL.RULES HISTORY",
}

// TestSecretsAreNotShown_Cluster uses the passwords of users that are in the log of a cluster, and checks that neither they
// nor the keys of the nodes are in anything that the nodes show, in their data directories, or in the output of commands
// that read these.
func TestSecretsAreNotShown_Cluster(t *testing.T) {
	dir := t.TempDir()
	users, password := filepath.Join(dir, "users.acl"), filepath.Join(dir, "password")
	writeFile(t, users, "user default on >"+canaryPass+" ~* &* +@all alldomains\nuser app on >"+canaryUser+" ~app:* +cl.throttle +cl.lease +echo\n")
	writeFile(t, password, canaryPass+"\n")
	ca := newAuthority(t)
	all := prepareProcesses(t, []string{"n1", "n2"}, func(id string) []string {
		return append(ca.args(id), "--aclfile", users, "--loglevel", "debug", "--slowlog-log-slower-than", "0", "--auth-failures-per-minute", "0", "--raft-heartbeat", "2000")
	})
	var keys []string
	for _, p := range all {
		_, key := certs.Files(ca.dir, p.id)
		keys = append(keys, key)
		p.start()
	}
	_, key := certs.CAFiles(ca.dir)
	c := newCanary(t, append(keys, key)...)
	for _, p := range all {
		p.awaitLogin("default", canaryPass, "")
		p.waitLog(".acl version=")
		c.useNode(p)
	}
	backup, saved := filepath.Join(dir, "backup.thr"), filepath.Join(dir, "saved.acl")
	c.command("backup", "--from", all[1].addr, "--password-file", password, "--out", backup, "--users-out", saved)
	c.command("health", "--addr", all[0].addr, "--password-file", password)
	for _, p := range all {
		c.stop(p)
		c.command("check", p.dir)
		c.command("dump", p.dir)
		c.addFiles(p.dir)
	}
	c.command("check", backup)
	c.command("dump", backup)
	c.addFiles(backup, saved)
	c.check("wrong password", "user extra on #", "leader:n", `"key":"app:1"`, "WRONGPASS", "identity")
}

// useNode logs in to a node with right and wrong passwords, changes users, and adds the replies.
func (c *canary) useNode(p *process) {
	c.t.Helper()
	admin, monitor, app := openSession(c.t, p.addr), openSession(c.t, p.addr), openSession(c.t, p.addr)
	c.add(admin.send("AUTH "+canaryWrong, "AUTH default "+canaryPass))
	c.add(monitor.send("AUTH default "+canaryPass, "MONITOR"))
	c.add(app.send("AUTH app "+canaryWrong, "AUTH "+canaryPass+" app", "AUTH app "+canaryUser, "CL.THROTTLE app:1 5 5 60", "CL.THROTTLE other 5 5 60",
		"CL.LEASE 1 1000 THROTTLE app:2 5 5 60"))
	c.add(admin.send("ACL SETUSER extra on >"+canaryAdded+" +@all ~*", "ACL SETUSER extra <"+canaryWrong, "ACL SETUSER extra >"+canaryAdded+" nonsense",
		"AUTH extra "+canaryAdded, "AUTH default "+canaryPass, "ACL DELUSER gone", "ACL SAVE", "CONFIG SET requirepass "+canaryAdded))
	c.add(admin.send(adminPages...))
	c.add(admin.send(clusterPages...))
	c.add(monitor.send())
}

// TestSecretsAreNotShown_Sidecar checks that neither the password nor the key with which a sidecar logs in to its upstream is in
// anything that the two show, also after the upstream has changed the password.
func TestSecretsAreNotShown_Sidecar(t *testing.T) {
	dir, site := t.TempDir(), tlstest.New(t)
	site.Replace("app", site.Issue("app"))
	users, password, web, rpc := filepath.Join(dir, "users.acl"), filepath.Join(dir, "password"), freeAddr(t), freeAddr(t)
	writeFile(t, users, "user default on nopass ~* &* +@all alldomains\nuser app on >"+canaryUser+" ~* &* +@all alldomains\n")
	writeFile(t, password, canaryUser+"\n")
	c := newCanary(t, site.Path("server-key.pem"), site.Path("app-key.pem"))
	tlsUp := &process{t: t, addr: freeAddr(t)}
	up := newServer(t, append(site.Args("yes"), "--tls-port", portOf(tlsUp.addr), "--aclfile", users, "--loglevel", "debug", "--auth-failures-per-minute", "0", "--dir", dir)...)
	up.waitLog("ready")
	side := newSidecarOf(t, []*process{tlsUp}, "--upstream-user", "app", "--upstream-password-file", password, "--http-port", portOf(web), "--grpc-port", portOf(rpc),
		"--upstream-tls", "yes", "--upstream-tls-ca-cert-file", site.Path("ca.pem"), "--upstream-tls-cert-file", site.Path("app.pem"),
		"--upstream-tls-key-file", site.Path("app-key.pem"), "--upstream-tls-server-name", tlstest.ServerName, "--loglevel", "debug", "--dir", dir)
	side.askUntil("[0 ", "CL.THROTTLE", "k", 999_999, 999_999, 60)
	c.useSidecar(side, up, web, rpc)
	up.mustDo("ACL", "SETUSER", "app", "resetpass", ">"+canaryAdded)
	up.mustDo("CLIENT", "KILL", "USER", "app")
	side.waitLog("WRONGPASS")
	c.useSidecar(side, up, web, rpc)
	c.stop(side)
	c.stop(up)
	c.check("upstream_link_status:up", "upstream_link_status:down", "throttled_clients", "gRPC: ", "upstream-password-file", "lessee")
}

// useSidecar adds the state that a sidecar and its upstream show, and the replies to right and wrong passwords.
func (c *canary) useSidecar(side, up *process, web, rpc string) {
	c.t.Helper()
	for _, p := range []*process{side, up} {
		s := openSession(c.t, p.addr)
		c.add(s.send("AUTH default "+canaryPass, "AUTH app "+canaryWrong, "AUTH app "+canaryUser))
		c.add(s.send(adminPages...))
	}
	c.addPages(web)
	c.addCalls(rpc)
}
