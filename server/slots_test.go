package server

import (
	"testing"

	"github.com/throttledhq/throttled/topology"
)

func TestSlots(t *testing.T) {
	t.Parallel()
	if got := crc16([]byte("123456789")); got != 0x31c3 {
		t.Errorf("crc16 is %#x, want 0x31c3", got)
	}
	// Replies of Redis 7.0 to CLUSTER KEYSLOT.
	for key, want := range map[string]int{
		"": 0, "foo": 12182, "{a}b": 15495, "a": 15495, "x{a}y{b}": 15495, "{}a": 10875, "{}": 15257,
		"{user1000}.following": 3443, "{user1000}.followers": 3443, "user1000": 3443, "foo{{bar}}zap": 4015, "{bar": 4015, "foo{bar}{zap}": 5061, "bar": 5061,
	} {
		if got := slotOf([]byte(key)); got != want {
			t.Errorf("the slot of %q is %d, want %d", key, got, want)
		}
	}
}

func TestClusterNodeID(t *testing.T) {
	t.Parallel()
	a, b, c := clusterNodeID("x", "a"), clusterNodeID("x", "b"), clusterNodeID("y", "a")
	if len(a) != 40 || a == b || a == c || a != clusterNodeID("x", "a") {
		t.Errorf("node ids %s, %s and %s: want 40 hexadecimal digits that depend on cluster and node", a, b, c)
	}
	if got := errMoved([]byte("foo"), &topology.Member{Host: "::1", ClusterPort: 7}, false); got != "MOVED 12182 ::1:7" {
		t.Errorf("errMoved returns %q, want the IPv6 address without brackets", got)
	}
}
