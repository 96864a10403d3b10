package certs

import "testing"

// TestNamesAreApart checks that no two nodes have the same DNS name.
func TestNamesAreApart(t *testing.T) {
	seen := map[string]string{}
	names := []string{"a", "b", "ab", "a-b", "throttled"}
	for _, node := range names {
		for _, cluster := range names {
			name := Name(node, cluster)
			if other, ok := seen[name]; ok {
				t.Errorf("node %s of cluster %s has the DNS name %s, and so has node %s", node, cluster, name, other)
			}
			seen[name] = node + " of " + cluster
		}
	}
}
