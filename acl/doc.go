// Package acl implements users and their permissions, as the ACL commands of Redis define them.
//
// A [User] is an immutable value: name, passwords, and the commands, keys, channels and rule domains that it may use.
// User.Apply returns a changed copy. A [Set] is an immutable set of users; it always contains the user "default". A
// [Store] holds the current set. [Parse] reads the format of Redis's ACL files, and Set.Text writes it.
//
// The rules of a user are those of Redis 7, without selectors. Three words are added, for the domains of rules files:
// domain:PATTERN, alldomains and resetdomains.
//
// Passwords are stored as SHA-256 digests only, and are compared in constant time. No error of this package contains a
// password.
package acl
