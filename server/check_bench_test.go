package server

import (
	"fmt"
	"strings"
	"testing"
)

// fourRules has four limits that apply to the requests of fourCheck. They are those of fourAll.
const fourRules = `
version: 1
domain: shop
limits:
  site: {allow: 1000000/s burst 1000000000}
  tenant: {when: {path: /api/*}, per: [tenant], allow: 1/min burst 1000000}
  user: {when: {path: /api/*}, per: [user], allow: 1/h burst 1000000}
  search: {when: {path: /api/search, method: GET}, per: [user], allow: 1/day burst 100000}
  other: {when: {path: /login}, per: [ip], allow: 5 per 15m}
`

var (
	fourCheck = request(words("CL.CHECK shop path /api/search method GET tenant acme user 1234567 ip 192.0.2.1")...)
	fourAll   = request(words("CL.ALL 1 THROTTLE site 999999999 1000000 1 THROTTLE tenant:acme 999999 1 60 THROTTLE user:1234567 999999 1 3600 " +
		"THROTTLE search:1234567 99999 1 86400")...)
)

// checkPaths are pipelines of CL.CHECK. Like hotPaths, they must not allocate memory after the first run.
var checkPaths = []struct{ name, input string }{
	{"one check", fourCheck},
	{"sixteen checks", strings.Repeat(fourCheck, 16)},
	{"a peek, a dry run, and a refund", request("CL.CHECK", "shop", "PEEK", "path", "/api/x") + request("CL.CHECK", "shop", "DRYRUN", "MS", "path", "/api/x") +
		request("CL.CHECK", "shop", "COST", "-1", "path", "/api/x")},
	{"checks among other commands", strings.Repeat(fourCheck+request("CL.THROTTLE", "k", "15", "30", "60")+fourAll, 4)},
}

// BenchmarkCheck compares CL.CHECK with a CL.ALL of the same four limits.
func BenchmarkCheck(b *testing.B) {
	for _, depth := range []int{1, 16} {
		for _, command := range []struct{ name, input string }{{"CHECK", fourCheck}, {"ALL", fourAll}} {
			b.Run(fmt.Sprintf("%s of 4, depth %d", command.name, depth), func(b *testing.B) {
				c := silentClient(b, setup{rules: newRules(b, fourRules)})
				input := strings.Repeat(command.input, depth)
				var reader strings.Reader
				b.ReportAllocs()
				for b.Loop() {
					c.respond(b, &reader, input)
				}
			})
		}
	}
}
