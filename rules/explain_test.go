package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestExplain(t *testing.T) {
	x := &parse(t, shop).Domains[0]
	for _, tt := range []struct {
		request Attributes
		want    []string
	}{
		{Attributes{"path": "/login", "method": "GET", "user": "u"}, []string{
			`login: method is "GET", want {exact: 'POST'}`,
			`api: path is "/login", want {prefix: '/api/'}`,
			`tokens: none of the alternatives matches: model is absent, want {exact: 'a'}; model is absent, want {exact: 'b'}`,
		}},
		{Attributes{"path": "/api/", "user": "acme", "model": "b"}, []string{
			`login: path is "/api/", want {exact: '/login'}`,
			`api: override 1`,
			`tokens: none of the alternatives matches: model is "b", want {exact: 'a'}; path is "/api/", want {exact: '/x'}`,
		}},
		{Attributes{"path": "/api/", "model": "a"}, []string{
			`login: path is "/api/", want {exact: '/login'}`,
			`api: override 0`,
			`tokens: user is absent, want {present: true}`,
		}},
		{Attributes{"model": "a", "user": "u", "path": "/api/x", "ip": "2001:db8::7"}, []string{
			`login: path is "/api/x", want {exact: '/login'}`,
			`api: override 3`,
			`tokens: override 0`,
		}},
	} {
		var got []string
		for _, e := range x.Explain(tt.request, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) {
			if e.Unmet != "" {
				got = append(got, e.Limit+": "+e.Unmet)
				continue
			}
			got = append(got, fmt.Sprintf("%s: override %d", e.Limit, e.Override))
		}
		if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
			t.Errorf("%v:\ngot\n%s\nwant\n%s", tt.request, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}
