// Package ruleset holds the rules of a running server: the active set, and the history of its versions.
//
// A rules file, as described in package rules, is the text of a set. A [Store] has the newest set, compiled, as its
// [Active] set, and the earlier versions as its history.
//
// A change of the rules takes these steps:
//
//   - An [Editor] or a watched file creates a [Proposal] with the text of the new set.
//   - [Store.Prepare] validates the whole text, compiles it unless [Store.Compile] has done so, and compares it with the
//     newest version.
//   - A [Log] appends the version to a log. In a cluster this is the replicated log, and in a server without a log it is
//     a [Local] log, which does nothing but assign an order.
//   - [Store.Activate] is called for each version, in the order of the log, and makes it the newest one.
//
// # Guarantees
//
//   - Versions are numbered from 1, without gaps. A set that is not valid gets no number and changes nothing.
//   - [Store.Active] returns a whole set. The version that it returns never decreases.
//   - A proposal that names the version on which it is based fails if that version is no longer the newest one.
//   - The history has the newest 1,000 versions and the texts of up to 16.
//   - A proposal with OnlyNew has no effect if one of the newest 65,000 versions has its text.
package ruleset
