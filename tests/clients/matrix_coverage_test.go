package clienttests

import (
	"slices"
	"testing"
)

// TestMatrix_Reasons checks that each client of the matrix runs in every mode and with every version of the protocol, or has
// a reason why it does not.
func TestMatrix_Reasons(t *testing.T) {
	for i := range drivers {
		d := &drivers[i]
		for _, mode := range allModes {
			if slices.Contains(d.modes, mode) == (d.lacks[mode] != "") {
				t.Errorf("%s: the mode %s must be run or have a reason, but not both", d.name, mode)
			}
		}
		if slices.Contains(d.resp, 3) == (d.lacks["RESP3"] != "") {
			t.Errorf("%s: RESP3 must be run or have a reason, but not both", d.name)
		}
	}
}

// TestMatrix_Clients checks that the matrix has a row for each client that docs/clients.md documents.
func TestMatrix_Clients(t *testing.T) {
	for _, name := range []string{
		"go-redis", "rueidis", "redigo", "radix", "node-redis", "ioredis", "redis-py", "redis-py, asyncio", "redis-rs", "fred", "redis-cell-rs",
		"Jedis", "Lettuce", "Redisson", "hiredis", "phpredis", "predis", "redis-rb", "Perl Redis", "lua-redis", "redis-cli",
	} {
		if !slices.ContainsFunc(drivers, func(d driver) bool { return d.name == name }) {
			t.Errorf("the matrix has no client %s", name)
		}
	}
}
