// Package options declares the settings of the server, and loads, changes and saves their values.
//
// [Options] holds the values, and [Default] returns the defaults. One table binds the name
// of each option to its field, its help text and the rules for changing it. Flags,
// environment, configuration file, CONFIG GET, CONFIG SET, CONFIG REWRITE and the help text
// are derived from this table.
//
// [Load] reads the settings when the program starts. A later source overrides an earlier source:
//
//	default < configuration file < environment (THROTTLED_...) < flags
//
// Within a source, the last value of an option applies. The option save is an exception: its
// lines or flags accumulate.
//
// Load returns a [Store], from which the program reads the current values with one atomic load,
// and through which clients read and change them. A change is atomic: readers see the values
// either before or after the change, never a mix.
//
// An option that Redis also has uses the name, the unit and the error texts of Redis. Sizes
// are bytes and accept the units k, kb, m, mb, g and gb. Durations are whole numbers in the
// unit given in the option's help.
//
// Options with secrets, such as requirepass, are set like any other option, but their
// values are not shown. CONFIG GET returns an empty value for them, and errors omit the
// value. CONFIG REWRITE is the only command that writes secrets: it writes them to the
// configuration file, because the server needs them at its next start.
//
// Load looks up only THROTTLED_CONFIG and the environment variables of known options. It ignores
// variables that Kubernetes sets for services, such as THROTTLED_PORT=tcp://10.0.0.1:6380.
// [UnknownEnv] returns all other THROTTLED_ variables, so that a misspelled one is reported.
package options
