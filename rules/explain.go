package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Explanation states for one limit whether it applies to a request.
type Explanation struct {
	Limit    string   // name
	Unmet    string   // the first condition that the request does not meet; "" if the limit applies
	Override int      // position of the override that applies, from 1; 0 if none applies
	Skipped  []string // why the first overrides do not apply; at most maxSkipped
}

// maxSkipped is the number of overrides that an Explanation has a reason for. A limit may have thousands of them.
const maxSkipped = 3

// Explain returns an Explanation for each limit of the domain, in the order of the file.
func (x *Domain) Explain(request Attributes, now time.Time) []Explanation {
	list := make([]Explanation, len(x.Limits))
	for i := range x.Limits {
		l := &x.Limits[i]
		list[i] = Explanation{Limit: l.Name, Unmet: l.When.unmet(x, request)}
		if list[i].Unmet == "" {
			list[i].Override = l.override(x, request, now) + 1
			list[i].Skipped = l.skipped(list[i].Override, x, request, now)
		}
	}
	return list
}

// skipped returns why the overrides before the one at the position applied do not apply.
func (l *Limit) skipped(applied int, x *Domain, request Attributes, now time.Time) (reasons []string) {
	for i := range min(l.countSkipped(applied), maxSkipped) {
		reasons = append(reasons, l.Overrides[i].unmet(x, request, now))
	}
	return reasons
}

// countSkipped returns the number of overrides before the one at the position applied, or of all if it is 0.
func (l *Limit) countSkipped(applied int) int {
	if applied == 0 {
		return len(l.Overrides)
	}
	return applied - 1
}

// unmet describes why the override does not apply.
func (o *Override) unmet(x *Domain, request Attributes, now time.Time) string {
	switch {
	case !o.Until.IsZero() && !now.Before(o.Until):
		return "it ended at " + o.Until.Format(time.RFC3339)
	case !o.During.contains(now):
		return fmt.Sprintf("%s in %v is not within during", now.In(o.During.Zone).Format("Mon 15:04"), o.During.Zone)
	}
	return o.When.unmet(x, request)
}

// unmet describes the first condition that a request does not meet. It returns "" if the request matches.
func (w When) unmet(x *Domain, request Attributes) string {
	for _, c := range w.All {
		if text := x.value(c.Attribute, request); !c.Matcher.matches(text) {
			return fmt.Sprintf("%s is %s, want %s", c.Attribute, describeValue(text), clip(c.Matcher.String()))
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

// requestAttributes returns the sorted names of the attributes of requests that the domain uses.
func (x *Domain) requestAttributes() []string {
	used := usedNames{x, map[string]bool{}}
	used.add(x.Tiers.By)
	for i := range x.Limits {
		used.addLimit(&x.Limits[i])
	}
	if x.Default != nil {
		used.add(x.Default.Per...)
	}
	names := make([]string, 0, len(used.names))
	for name := range used.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// usedNames collects the names of attributes of requests.
type usedNames struct {
	domain *Domain
	names  map[string]bool
}

// add adds attributes. A derived attribute adds those from which it is derived.
func (u usedNames) add(names ...string) {
	for _, name := range names {
		if a := u.domain.attribute(name); a != nil && len(a.FirstOf) > 0 {
			for _, source := range a.FirstOf {
				u.names[source] = true
			}
		} else if name != "" {
			u.names[name] = true
		}
	}
}

func (u usedNames) addLimit(l *Limit) {
	u.addWhen(l.When)
	u.addWhen(l.Priority.When)
	for i := range l.Overrides {
		u.addWhen(l.Overrides[i].When)
	}
	u.add(l.Per...)
	u.add(l.Cost.Attribute)
}

func (u usedNames) addWhen(w When) {
	for i := range w.All {
		u.add(w.All[i].Attribute)
	}
	for i := range w.Any {
		u.addWhen(w.Any[i])
	}
}
