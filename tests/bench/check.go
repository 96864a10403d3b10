package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// checkRules has four limits that apply to the requests of checkFamily, and others that do not. The limits are those of
// the CL.ALL with which CL.CHECK is compared. As in family, units are restored so slowly that the keys stay in use.
const checkRules = `
version: 1
domain: shop
limits:
  site: {allow: 1000000/s burst 1000000000}
  login: {when: {path: /login}, per: [ip], allow: 5 per 15m}
  tenant: {when: {path: /api/*}, per: [tenant], allow: 1/min burst 1000000}
  user: {when: {path: /api/*}, per: [user], allow: 1/h burst 1000000}
  upload: {when: {path: /api/upload, method: PUT}, per: [user], allow: 100/day}
  search: {when: {path: /api/search, method: GET}, per: [user], allow: 1/day burst 10000}
`

// checkFamily lists the commands of the measurement. The first command is the reference for the other.
var checkFamily = []relative{
	{"CL.ALL, four CL.THROTTLE", "CL.ALL 1 THROTTLE site 999999999 1000000 1 THROTTLE tenant:{key} 999999 1 60" +
		" THROTTLE user:{key} 999999 1 3600 THROTTLE search:{key} 9999 1 86400", 0},
	{"CL.CHECK, the same four", "CL.CHECK shop path /api/search method GET tenant {key} user {key}", 0},
}

// checkDepths lists the pipeline depths, and the bars for the ratio of server CPU per request.
var checkDepths = []struct {
	pipeline, requests int
	bar                float64
}{{1, 200_000, 1.1}, {16, 1_000_000, 1.25}}

// compareCheck compares the cost of CL.CHECK with that of a CL.ALL of the same limits.
func compareCheck(s settings, b *board) error {
	dir, err := os.MkdirTemp("", "throttled-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(checkRules), 0o600); err != nil {
		return err
	}
	return withGenerator(func(g generator) error {
		return withServer([]string{"--rules", file}, func(p *process) error {
			b.note("server CPU per request; %d keys, %d connections, median of %d rounds", familyKeys, s.conns, s.rounds)
			for _, d := range checkDepths {
				costs, err := g.costs(p.addr, checkFamily, d.pipeline, d.requests, s)
				if err != nil {
					return err
				}
				for i, r := range checkFamily {
					b.note("depth %3d %-30s %6.3f us", d.pipeline, r.name, costs[i])
				}
				b.atMost(fmt.Sprintf("depth %3d CL.CHECK, ratio to CL.ALL", d.pipeline), costs[1]/costs[0], d.bar, "x")
			}
			return nil
		})
	})
}
