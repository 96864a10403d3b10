package rules

import "testing"

// TestCheckUnits checks the keys that need a minimum number of units: which limits are accepted, and the path, the reason
// and the remedy of errors.
func TestCheckUnits(t *testing.T) {
	const critical = "priority: {when: {class: critical}, share: "
	for limit, want := range map[string]string{
		// A soft share must have a unit for one of the amounts.
		"allow: 9 per hour, soft: 10%":                                    "soft: 10% of 9, rounded down, is 0 units; write at least 12%, or a larger amount",
		"allow: [10 per minute burst 2, 5/h], soft: 19%":                  "soft: 19% of 5, rounded down, is 0 units; write at least 20%, or a larger amount",
		"allow: 1 per hour, soft: 99%":                                    "soft: 99% of 1, rounded down, is 0 units; write at least 100%, or a larger amount",
		"allow: 9 per hour, soft: 12%":                                    "",
		"allow: [2 per minute, 1000 per day], soft: 10%":                  "",
		"allow: none, soft: 10%":                                          "",
		"allow: unlimited, soft: 10%":                                     "",
		"allow: 5/h, soft: 10%, overrides: [{when: {a: b}, allow: 10/h}]": "",

		// A constant cost must be admitted by each amount.
		"allow: 5 per hour, cost: 10":                                  `cost: the cost is above 5, the maximum of "5 per hour" at once, so each request is refused; write a smaller cost or a larger amount, or refuse all requests by "allow: none"`,
		"allow: [100/h, 20 per minute burst 5], cost: 6":               `cost: the cost is above 5, the maximum of "20 per minute burst 5" at once, so each request is refused; write a smaller cost or a larger amount, or refuse all requests by "allow: none"`,
		"allow: 5 per month, algorithm: fixed, cost: 6":                `cost: the cost is above 5, the maximum of "5 per month" at once, so each request is refused; write a smaller cost or a larger amount, or refuse all requests by "allow: none"`,
		"allow: 9/h, cost: 6, overrides: [{when: {a: b}, allow: 5/h}]": `cost: the cost is above 5, the maximum of "5 per hour" at once, so each request is refused; write a smaller cost or a larger amount, or refuse all requests by "allow: none"`,
		"allow: 5 per hour, cost: 5":                                   "",
		"allow: 5 per hour, cost: 6, soft: 20%":                        "",
		"allow: none, cost: 6":                                         "",
		"allow: unlimited, cost: 6":                                    "",
		"allow: 5 per hour, cost: size":                                "",

		// A cost of a map must be admitted by the amounts of one tier or override.
		"allow: 5 per hour, cost: {path: {/a: 5, /b: 6}}":                                  `cost.path."/b": the cost is above 5, the maximum of the limit at once, so each of these requests is refused; write a smaller cost or a larger amount`,
		"allow: [9/s, 5/h], cost: {path: {/b: 6}}":                                         `cost.path."/b": the cost is above 5, the maximum of the limit at once, so each of these requests is refused; write a smaller cost or a larger amount`,
		"allow: {free: 5/h, pro: 8/h}, cost: {path: {/b: 9}}":                              `cost.path."/b": the cost is above 8, the maximum of the limit at once, so each of these requests is refused; write a smaller cost or a larger amount`,
		"allow: {free: 5/h, pro: 8/h}, cost: {path: {/b: 8}}":                              "",
		"allow: 5/h, cost: {path: {/b: 6}}, overrides: [{when: {a: b}, allow: 6/h}]":       "",
		"allow: 5/h, cost: {path: {/b: 6}}, overrides: [{when: {a: b}, allow: unlimited}]": "",
		"allow: 5/h, soft: 20%, cost: {path: {/b: 6}}":                                     "",
		"allow: none, cost: {path: {/b: 6}}":                                               "",

		// A share of priority must leave units for a request without priority, unless it is 100 %.
		"allow: 1 per hour, " + critical + "20%}":             `priority.share: 20% of "1 per hour", rounded up, leaves 0 of 1 units, so each request without priority is refused; write a smaller share or a larger amount, or reserve all units by 100%`,
		"allow: 10 per hour, cost: 9, " + critical + "20%}":   `priority.share: 20% of "10 per hour", rounded up, leaves 8 of 10 units, so each request without priority is refused; write a smaller share or a larger amount, or reserve all units by 100%`,
		"allow: 4 per hour, " + critical + "20%}":             "",
		"allow: 1 per hour, " + critical + "100%}":            "",
		"allow: 1 per hour, soft: 100%, " + critical + "20%}": "",
	} {
		text := "version: 1\ndomain: d\ntiers: {by: t, default: free}\nlimits: {a: {" + limit + "}}\n"
		if want == "" {
			parse(t, text)
			continue
		}
		errs := errorsOf(t, text)
		if got := errs[0].Path + ": " + errs[0].Reason + "; " + errs[0].Suggestion; len(errs) != 1 || got != "limits.a."+want {
			t.Errorf("%s:\n%v\nwant limits.a.%s", limit, errs, want)
		}
	}
}
