package server

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/throttledhq/throttled/acl"
)

// documentedUser returns the user of a sidecar as docs/sidecar.md creates it: the line that begins with ACL SETUSER.
func documentedUser(t *testing.T) *acl.User {
	t.Helper()
	text, err := os.ReadFile("../docs/sidecar.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 4 || words[0] != "ACL" || words[1] != "SETUSER" {
			continue
		}
		set, err := acl.Parse("user "+strings.Join(words[2:], " ")+"\n", UserCatalog())
		if err != nil {
			t.Fatal(err)
		}
		return set.Get(words[2])
	}
	t.Fatal("docs/sidecar.md has no line that begins with ACL SETUSER")
	return nil
}

// TestSidecar_DocumentedUser checks that the user of docs/sidecar.md may run each command that a sidecar forwards, and those that
// the sidecar itself sends, and no command that a sidecar refuses.
func TestSidecar_DocumentedUser(t *testing.T) {
	u, catalog := documentedUser(t), UserCatalog()
	may := func(name string) bool {
		id, found := catalog.ID(name)
		return found && u.MayRun(id)
	}
	own := []string{"cl.lease", "cl.lease.return", "cl.rules|history", "cl.rules|get", "role", "exists", "sentinel|get-master-addr-by-name"}
	for _, cmd := range newRegistry(commandTable(), onRedis).every {
		switch {
		case refusedBySidecar[cmd.name]:
			if may(cmd.name) {
				t.Errorf("%s: the user may run it, although a sidecar does not send it", cmd.name)
			}
		case cmd.isForwarded() && cmd.subs == nil && cmd.refusal == "":
			own = append(own, cmd.name)
		}
	}
	if !slices.Contains(own, "cl.throttle") || !slices.Contains(own, "watch") {
		t.Errorf("the commands that a sidecar sends are %q, want cl.throttle and watch among them", own)
	}
	for _, name := range append(own, refundName) {
		if !may(name) {
			t.Errorf("%s: the user may not run it, although a sidecar sends it", name)
		}
	}
	if !u.MayAccess([]byte("any"), acl.Read|acl.Write) || !u.MayUseDomain([]byte("any")) {
		t.Error("the user may not use all keys and domains")
	}
}
