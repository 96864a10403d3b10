// Package options declares every setting of the server once and gives each its value.
//
// [Options] holds the values, [Default] the defaults. One table binds each name to its
// field, its help and the rules for changing it; flags, environment, configuration
// file, CONFIG GET, CONFIG SET, CONFIG REWRITE and the help text all derive from it.
//
// [Load] reads the settings when the program starts. A later source wins over an
// earlier one:
//
//	default < configuration file < environment (THROTTLED_...) < flags
//
// Within a source the last value counts, but for save, whose lines or flags add up.
//
// It returns a [Store], from which the program reads the values in force with one
// atomic load, and through which clients read and change them. A change is all or
// nothing: readers see the values before it or after it, never a part of it.
//
// Names, units and error texts are those of Redis wherever Redis has the option:
// sizes are bytes and take the units k, kb, m, mb, g and gb; durations are whole
// numbers in the unit that the option's help names.
//
// Secrets are set like any other option and never shown: CONFIG GET gives an empty
// value and errors leave the value out. Only CONFIG REWRITE writes them, to the file
// that the server has to start from.
//
// Environment variables that name no option go unnoticed, since Load looks up the
// names it knows.
package options
