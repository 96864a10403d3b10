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
// # Guarantees
//
//   - A file is accepted as a whole, or refused. All problems that can be seen are reported together, up to 20. An error
//     of the YAML syntax is reported alone.
//   - Each [Error] has the line and the column of the problem, the path of its keys and the reason, and in most cases the
//     remedy.
//   - The package is pure: it has no clock and does no I/O. The caller provides the time zones ([ZoneLoader]).
//   - The time is about linear in the size of the text. The caller limits the size.
package rules
