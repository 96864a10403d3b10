package topology

import "testing"

// TestNameUpstreamUser checks that only a NOPERM that concerns the user is changed. The name is empty if it is not known.
func TestNameUpstreamUser(t *testing.T) {
	for _, tt := range []struct{ reply, user, want string }{
		{"NOPERM this user has no permissions to run the 'role' command", "app", "NOPERM the upstream user app has no permissions to run the 'role' command"},
		{"NOPERM this user has no permissions to run the 'role' command", "", "NOPERM the upstream user has no permissions to run the 'role' command"},
		{"NOPERM User app has no permissions to run the 'role' command", "app", "NOPERM User app has no permissions to run the 'role' command"},
		{"ERR this user", "app", "ERR this user"},
	} {
		if got := NameUpstreamUser(tt.reply, tt.user); got != tt.want {
			t.Errorf("%q, user %q: got %q, want %q", tt.reply, tt.user, got, tt.want)
		}
	}
}
