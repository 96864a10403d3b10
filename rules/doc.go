// Package rules parses rules files: the rate limits of one or more domains, written in YAML and kept in one place for all
// services.
//
//	version: 1
//	domain: shop
//	limits:
//	  login:
//	    when: {path: /login, method: POST}
//	    per: [ip]
//	    allow: 5 per 15m
//
// [Parse] converts the text to a [File], or returns [Errors]. A [Domain] has named limits. A [Limit] applies to the
// requests that its [When] matches, which has a [Matcher] for each attribute. [Allow] has the amounts, such as "100 per
// minute" ([Amount]). [Domain.Match] returns the limits that apply to the [Attributes] of a request, and [Domain.Explain]
// the reasons why others do not.
//
// A test file has requests with their times, and the decisions that are expected. [ParseTests] parses it.
//
// [Compile] converts a File to a [Set], whose [CompiledDomain.Match] returns the same limits as Domain.Match for the
// attributes as they arrive in a request, without allocating memory. Domain.Match is the definition of their meaning.
//
// # Text
//
// Each value is the text in the file, and never the boolean, number or date that YAML would make of it: "on", "0123" and
// "2027-01-31" are texts of two, four and ten characters. Brackets are optional around a list of one value.
//
// Parse refuses YAML that is easily misunderstood: aliases, anchors, tags, merge keys, repeated keys, null, tabs, and text
// over several lines. The error of a text that YAML splits, such as [100,000 per day], suggests quotes.
//
// # Cost of a match
//
// A compiled domain stores each limit under a key that a request must have in order to match it: an exact value, a
// network, a path template, a prefix or a suffix. It chooses the key that the fewest limits share. Limits that share a key
// nevertheless are separated by the keys of their other conditions. A match then looks up the attributes of the request,
// and checks the conditions of the few limits found, so its cost depends on the request and on the number of limits that
// match, and not on the number of limits in the file. The same holds for the overrides of a limit, the cases of a cost,
// the alternatives of "any" and the texts of a list.
//
// The cost is linear in the number of limits (or overrides and so on) that no key separates:
//
//   - Limits that have only conditions with "not", "present: false" or a list that contains one of these are checked for
//     each request. A glob that neither begins nor ends with literal text, such as "*bot*", is checked for each request
//     with the attribute.
//   - Limits with the same conditions, or whose conditions differ only in the forms above, are checked together. So are
//     overrides that differ only in "until" and "during".
//   - All prefixes and networks that contain the value are found, and all templates that match the start of a path are
//     followed. Their number is bounded by the length of the value if no two are equal; for templates, by 2 to the power
//     of the number of segments.
//   - Only the first 16 conditions of a limit are considered, and the lists of values of several conditions are combined
//     only up to a multiple of the size of the file.
//
// # Requests that are counted together
//
// Each limit has a counter for each period and each list of values of "per". It is never charged at two rates at the same
// time: an algorithm that restores units at a constant rate would restore those of slow requests at the rate of the fast
// ones. So the counted values must determine the amount, or the amount has a counter of its own:
//
//   - If the amounts depend on the tier, the requests of each tier are counted on their own, unless "per" has the
//     attribute with the tier. Requests with an unknown tier are counted with those of the default tier.
//   - The requests of an override are counted on their own if its conditions use attributes that are not in "per". An
//     attribute is also determined if it is the first one in "first_of" of an attribute in "per". If IPv6 addresses are
//     counted by a prefix, only conditions that are networks of at most this length, IPv4 networks, templates, exact
//     texts that are no address, or the presence of the attribute are.
//   - The requests of any other override, and of one without conditions, are counted together with those of the limit.
//     Units used stay used when it begins and ends, unless only one of the two has tiers, or their periods differ: an
//     amount with another period has another counter, which begins without used units.
//
// These rules do not depend on the algorithm of the limit, although only some algorithms restore units at a constant rate.
//
// # Guarantees
//
//   - A file is accepted as a whole, or refused. All problems that can be seen are reported together, up to 20. An error
//     of the YAML syntax is reported alone.
//   - Each [Error] has the line and the column of the problem, the path of its keys and the reason, and in most cases the
//     remedy.
//   - The package is pure: it has no clock and does no I/O. The caller provides the time zones ([ZoneLoader]).
//   - The time is about linear in the size of the text. The caller limits the size.
package rules
