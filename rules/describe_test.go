package rules

import (
	"strings"
	"testing"
	"time"
)

func TestDescribe(t *testing.T) {
	const text = `version: 1
domain: shop
default: {allow: 7/s}
limits:
  login: {when: {path: /login}, allow: [5 per 15m, 9/day], per: [ip], cost: 2}
  api:
    when: {path: "/api/*"}
    allow: 10/s
    overrides: [{when: {user: acme}, allow: unlimited}]
`
	x := &parse(t, text).Domains[0]
	for _, test := range []struct {
		request Attributes
		want    string
	}{
		{Attributes{"path": "/login", "ip": "10.0.0.1"},
			"login applies: 5 per 15 minutes and 9 per day, for ip \"10.0.0.1\", cost 2\napi does not apply: path is \"/login\", want {prefix: '/api/'}\n"},
		{Attributes{"path": "/login"},
			"login applies: 5 per 15 minutes and 9 per day, for all requests without the attribute, cost 2\napi does not apply: path is \"/login\", want {prefix: '/api/'}\n"},
		{Attributes{"path": "/api/x", "user": "acme"},
			"login does not apply: path is \"/api/x\", want {exact: '/login'}\napi applies: unlimited, by override 1\n"},
		{Attributes{}, "login does not apply: path is absent, want {exact: '/login'}\napi does not apply: path is absent, want {prefix: '/api/'}\nThe default applies: 7 per second\n"},
	} {
		if got, err := x.Describe(test.request, time.Unix(1e9, 0)); got != test.want || err != nil {
			t.Errorf("%v: error %v, got\n%s\nwant\n%s", test.request, err, got, test.want)
		}
	}
	x.Default = nil
	if got, err := x.Describe(Attributes{}, time.Unix(1e9, 0)); !strings.HasSuffix(got, "\nNo limit applies: the request is admitted\n") || err != nil {
		t.Errorf("without a default: error %v, got\n%s", err, got)
	}
}
