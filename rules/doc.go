// Package rules parses the limits of a rules file. It has the type [Amount], for amounts such as "100 per minute".
//
// The package is pure: it has no clock and does no I/O.
package rules
