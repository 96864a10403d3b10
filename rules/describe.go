package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/throttledhq/throttled/internal/nearest"
)

// Describe explains a request of one unit at a time. The text has a line for each limit of the domain: whether it applies,
// and with which amounts and settings, or why it does not apply. Then follow attributes that the domain does not use. The
// last line is the decision. It may have conditions, because the units used are not known.
func (x *Domain) Describe(request Attributes, now time.Time) string {
	d := description{domain: x, request: request, now: now}
	list := x.Explain(request, now)
	for i := range list {
		d.addLimit(&x.Limits[i], &list[i])
	}
	d.addDefault()
	d.addUnused()
	d.text.WriteString("decision: " + d.decision() + "\n")
	return d.text.String()
}

// description is the state of Describe.
type description struct {
	domain  *Domain
	request Attributes
	now     time.Time
	text    strings.Builder
	live    []Match // the live limits that apply, and the default if it applies
	shadow  int     // amounts of the shadow limits that apply

	replaced bool  // whether one of the limits replaces the default
	err      error // of the first live limit whose cost cannot be determined
}

// addLimit adds the line of a limit.
func (d *description) addLimit(l *Limit, e *Explanation) {
	if e.Unmet != "" {
		fmt.Fprintf(&d.text, "%s does not apply: %s\n", l.Name, e.Unmet)
		return
	}
	allow := l.Allow
	if e.Override > 0 {
		allow = l.Overrides[e.Override-1].Allow
	}
	cost, err := l.Cost.of(d.domain, d.request)
	m := Match{l, allow.forTier(d.domain.tier(d.request)), cost, d.domain.sources(l.Per, d.request)}
	d.replaced = d.replaced || l.replacesDefault()
	if !l.Shadow {
		d.live = append(d.live, m)
		if err != nil && d.err == nil {
			d.err = fmt.Errorf("limit %s: %w", l.Name, err)
		}
	} else if d.shadow += len(m.Amounts); d.shadow > maxLimits {
		fmt.Fprintf(&d.text, "%s applies, in shadow, but is left out: more than %d amounts of shadow limits apply\n", l.Name, maxLimits)
		return
	}
	fmt.Fprintf(&d.text, "%s applies%s: %s", l.Name, inShadow(l), d.amounts(&m, allow, l.Per))
	d.addSettings(l, e)
	d.text.WriteString("\n")
}

// inShadow returns an addition to "applies" for a shadow limit.
func inShadow(l *Limit) string {
	if l.Shadow {
		return ", in shadow"
	}
	return ""
}

// addDefault adds the line of the default if it applies.
func (d *description) addDefault() {
	f := d.domain.Default
	if f == nil || d.replaced {
		return
	}
	m := Match{nil, f.Allow.forTier(d.domain.tier(d.request)), 1, d.domain.sources(f.Per, d.request)}
	d.live = append(d.live, m)
	fmt.Fprintf(&d.text, "The default applies: %s\n", d.amounts(&m, f.Allow, f.Per))
}

// amounts returns the amounts, the tier, the counted values and the cost of a limit that applies.
func (d *description) amounts(m *Match, allow Allow, per []string) string {
	var b strings.Builder
	for i, amount := range m.Amounts {
		if i > 0 {
			b.WriteString(" and ")
		}
		b.WriteString(amount.String())
	}
	b.WriteString(d.tier(allow))
	for i, source := range m.Per {
		if source.Attribute == "" {
			b.WriteString(", for all requests without " + per[i])
			continue
		}
		fmt.Fprintf(&b, ", for %s %q", source.Attribute, source.Value)
	}
	switch m.Cost {
	case 0:
		b.WriteString(", but its cost cannot be determined")
	case 1:
	default:
		fmt.Fprintf(&b, ", cost %d", m.Cost)
	}
	return b.String()
}

// tier describes the tier whose amounts apply, or returns "" if the amounts are those of all tiers.
func (d *description) tier(a Allow) string {
	name, fallback := d.domain.tier(d.request)
	switch {
	case len(a.Tiers) == 0:
		return ""
	case slices.ContainsFunc(a.Tiers, func(t TierAmounts) bool { return t.Tier == name }):
		return fmt.Sprintf(" (tier %s)", name)
	case name == "":
		return fmt.Sprintf(" (tier %s, because %s is absent)", fallback, d.domain.Tiers.By)
	}
	return fmt.Sprintf(" (tier %s, because %s is %s, which is not a tier)", fallback, d.domain.Tiers.By, describeValue(name))
}

// addSettings adds the settings of a limit that differ from their defaults, and its overrides.
func (d *description) addSettings(l *Limit, e *Explanation) {
	add := func(is bool, format string, args ...any) {
		if is {
			fmt.Fprintf(&d.text, format, args...)
		}
	}
	add(e.Override > 0, ", by override %d", e.Override)
	add(l.Algorithm.Kind != GCRA, ", algorithm %v", l.Algorithm)
	add(l.Soft > 0, ", soft %d%%", l.Soft)
	add(l.Warn > 0, ", warn %d%%", l.Warn)
	if l.Priority.Share > 0 {
		unmet := l.Priority.When.unmet(d.domain, d.request)
		add(unmet == "", ", with the reserved %d%%", l.Priority.Share)
		add(unmet != "", ", without the reserved %d%% (%s)", l.Priority.Share, unmet)
	}
	add(len(l.Charge) > 0, ", charged by status %s", statuses(l.Charge))
	add(l.Ban.For > 0, ", ban of %v after %d refusals per %v", l.Ban.For, l.Ban.After.Count, l.Ban.After.Per)
	add(l.OnFailure != FailDefault, ", on_failure %v", l.OnFailure)
	for i, reason := range e.Skipped {
		add(true, "; override %d does not apply: %s", i+1, reason)
	}
	more := l.countSkipped(e.Override) - len(e.Skipped)
	add(more > 0, "; further overrides that do not apply: %d", more)
}

// statuses returns a list of status codes, such as "401, 403 or 429".
func statuses(codes []int) string {
	words := make([]string, len(codes))
	for i, code := range codes {
		words[i] = strconv.Itoa(code)
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// maxUnused is the number of attributes that the domain does not use that Describe names.
const maxUnused = 3

// addUnused adds lines about attributes of the request that the domain does not use: their names may be misspelled.
func (d *description) addUnused() {
	used := d.domain.requestAttributes()
	unused := slices.DeleteFunc(slices.Sorted(maps.Keys(d.request)), func(name string) bool {
		_, found := slices.BinarySearch(used, name)
		return found
	})
	for _, name := range unused[:min(len(unused), maxUnused)] {
		fmt.Fprintf(&d.text, "no limit of the domain uses the attribute %q; %s\n", clip(name), d.remedy(name, used))
	}
	if more := len(unused) - maxUnused; more > 0 {
		fmt.Fprintf(&d.text, "further attributes that no limit of the domain uses: %d\n", more)
	}
}

// remedy suggests another attribute in place of one that the domain does not use.
func (d *description) remedy(name string, used []string) string {
	if a := d.domain.attribute(name); a != nil && len(a.FirstOf) > 0 {
		return "it is the first of " + strings.Join(a.FirstOf, ", ")
	}
	if near := nearest.Word(name, used); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	if len(used) == 0 {
		return "the limits use no attributes"
	}
	return "the limits use " + clip(strings.Join(used, ", "))
}
