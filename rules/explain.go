package rules

import (
	"fmt"
	"strings"
	"time"
)

// Explanation states for one limit whether it applies to a request.
type Explanation struct {
	Limit    string // name
	Unmet    string // the first condition that the request does not meet; "" if the limit applies
	Override int    // position of the override that applies, from 1; 0 if none applies
}

// Explain returns an Explanation for each limit of the domain, in the order of the file.
func (x *Domain) Explain(request Attributes, now time.Time) []Explanation {
	list := make([]Explanation, len(x.Limits))
	for i := range x.Limits {
		l := &x.Limits[i]
		list[i] = Explanation{Limit: l.Name, Unmet: l.When.unmet(x, request)}
		if list[i].Unmet == "" {
			list[i].Override = l.override(x, request, now) + 1
		}
	}
	return list
}

// unmet describes the first condition that a request does not meet. It returns "" if the request matches.
func (w When) unmet(x *Domain, request Attributes) string {
	for _, c := range w.All {
		if text := x.value(c.Attribute, request); !c.Matcher.matches(text) {
			return fmt.Sprintf("%s is %s, want %v", c.Attribute, describeValue(text), c.Matcher)
		}
	}
	if w.matches(x, request) {
		return ""
	}
	reasons := make([]string, len(w.Any))
	for i, alternative := range w.Any {
		reasons[i] = alternative.unmet(x, request)
	}
	return "none of the alternatives matches: " + strings.Join(reasons, "; ")
}

func describeValue(text string) string {
	if text == "" {
		return "absent"
	}
	return fmt.Sprintf("%q", clip(text))
}
