package options

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/throttledhq/throttled/internal/fsutil"
	"github.com/throttledhq/throttled/internal/nearest"
)

// Errors returned by [Load] if the command line requests the help text or the version.
var (
	ErrHelp    = errors.New("help requested")
	ErrVersion = errors.New("version requested")
)

const (
	fromFlag  = "flag"
	configEnv = "THROTTLED_CONFIG" // environment variable with the path of the configuration file
)

// Load reads the settings from their sources: the configuration file; the environment,
// through lookupEnv (pass os.LookupEnv); and args, the command line without the name of
// the program.
//
// The configuration file is the first argument if it does not begin with a hyphen,
// otherwise the value of --config, otherwise the value of THROTTLED_CONFIG. If no file is
// specified, none is read. An environment variable that is set but empty gives its option an empty value.
// If THROTTLED_CONFIG is empty, no file is read.
//
// The error is [ErrHelp] or [ErrVersion] if args request the help text or the version. The error for an
// invalid value contains the option, the value, its source and the values that are valid.
func Load(args []string, lookupEnv func(string) (string, bool)) (*Store, error) {
	path, flags, err := parseFlags(args)
	if err != nil {
		return nil, err
	}
	if path == nil {
		p, _ := lookupEnv(configEnv)
		path = &p
	}
	from := &sources{path: *path, flags: flags, lookupEnv: lookupEnv}
	o, file, err := from.read()
	if err != nil {
		return nil, err
	}
	start, _ := os.Getwd() // it may have been deleted: a relative path of a file is then not found
	from.path = file       // absolute, so that Reload does not depend on the working directory
	from.dir = under(start, o.Dir)
	if err := o.readPassword(from.dir); err != nil {
		return nil, err
	}
	s := newStore(o, file, from.dir)
	s.sources = from
	return s, nil
}

// under returns a path, below dir if it is relative.
func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// parseFlags returns the options that args set, in order, and the path of the configuration file. The path is nil if
// args do not specify a configuration file.
func parseFlags(args []string) (path *string, flags []Pair, err error) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		path, args = &args[0], args[1:]
	}
	fs := flag.NewFlagSet("throttled", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are returned; the caller prints them
	for i := range table {
		name := table[i].name
		fs.Func(name, "", func(v string) error {
			flags = append(flags, Pair{name, v})
			return nil
		})
	}
	var twice error
	fs.Func("config", "", func(v string) error {
		if path != nil && *path != v {
			twice = fmt.Errorf("--config %s (%s): the configuration file is %s already", quote(v), fromFlag, quote(*path))
		}
		path = &v
		return nil
	})
	var version bool
	fs.BoolVar(&version, "version", false, "")
	fs.BoolVar(&version, "v", false, "")

	err = fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil, nil, ErrHelp
	case err != nil:
		return nil, nil, flagError(err)
	case version:
		return nil, nil, ErrVersion
	case twice != nil:
		return nil, nil, twice
	case fs.NArg() > 0:
		return nil, nil, fmt.Errorf("unexpected argument %s: write the configuration file first, and quote a value of several words", quote(fs.Arg(0)))
	}
	return path, flags, nil
}

// flagError rewrites an error of the flag package in the form used for the other sources.
// It matches the text, because that package has no types for its errors.
func flagError(err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		return refuseName(name, fromFlag)
	}
	if name, ok := strings.CutPrefix(err.Error(), "flag needs an argument: -"); ok {
		return fmt.Errorf("--%s (%s): needs a value", name, fromFlag)
	}
	return err
}

// loader collects the values of all sources. It records for each option where its value was
// set: its origin.
type loader struct {
	options Options
	origin  map[string]string // by option: "flag", an environment variable, or FILE:LINE
	before  map[string]string // by option: its value so far within the current source
}

// begin starts a new source. Values of earlier sources do not accumulate with its values.
func (l *loader) begin() { l.before = map[string]string{} }

// readFile applies the configuration file and returns its absolute path, which remains
// valid if the working directory changes. If path is empty, it does nothing.
func (l *loader) readFile(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find the configuration file %s: %w", quote(path), err)
	}
	data, err := fsutil.ReadFile(abs)
	if err != nil {
		return "", fmt.Errorf("read the configuration file: %w", err)
	}
	return abs, l.readLines(path, parseLines(data))
}

// readLines applies the lines of the file at path.
func (l *loader) readLines(path string, lines []line) error {
	l.begin()
	for i, ln := range lines {
		origin := fmt.Sprintf("%s:%d", path, i+1)
		if ln.err != nil {
			return fmt.Errorf("%s: %w", origin, ln.err)
		}
		if ln.name == "" {
			continue
		}
		r := find(ln.name)
		switch {
		case r == nil:
			return refuseName(ln.name, origin)
		case ln.words == 0:
			return fmt.Errorf("%s (%s): needs a value", r.name, origin)
		case ln.words > 1 && !r.many():
			return fmt.Errorf("%s (%s): takes one value: quote a value with spaces", r.name, origin)
		}
		if err := l.set(r, ln.value, ln.value, origin); err != nil {
			return err
		}
	}
	return nil
}

// readEnv applies the environment.
func (l *loader) readEnv(lookupEnv func(string) (string, bool)) error {
	l.begin()
	for i := range table {
		r := &table[i]
		name := envName(r.name)
		text, ok := lookupEnv(name)
		if !ok || isService(name, text) {
			continue
		}
		if err := l.setLoose(r, text, name); err != nil {
			return err
		}
	}
	return nil
}

// setLoose sets an option from a flag or an environment variable. In addition to yes
// and no it accepts true, false, 1 and 0.
func (l *loader) setLoose(r *row, text, origin string) error {
	normalized := text
	if r.form == formYesNo {
		switch strings.ToLower(text) {
		case "true", "1":
			normalized = "yes"
		case "false", "0":
			normalized = "no"
		}
	}
	return l.set(r, text, normalized, origin)
}

// set sets an option to the value in the parameter normalized. If the option accumulates, set
// appends the value to the earlier values of the same source. Errors contain the parameter text,
// which is the value as specified in the source.
func (l *loader) set(r *row, text, normalized, origin string) error {
	v := r.field(&l.options)
	normalized = r.joined(l.before[r.name], normalized)
	if v.Set(normalized) != nil {
		return refuse(r, text, origin, "must be "+v.want())
	}
	l.origin[r.name], l.before[r.name] = origin, normalized
	return nil
}

// refuseConflict returns the error for a conflict. The error names one of the two options:
// the first one in c.names that a source has set.
func (l *loader) refuseConflict(c *conflict) error {
	for _, name := range c.names {
		if origin, ok := l.origin[name]; ok {
			r := find(name)
			return refuse(r, r.get(&l.options), origin, l.explain(c))
		}
	}
	panic("options: the defaults conflict: " + c.reason)
}

// explain returns the reason of a conflict followed by the two values.
func (l *loader) explain(c *conflict) string {
	a, b := find(c.names[0]), find(c.names[1])
	return fmt.Sprintf("%s (%s and %s)", c.reason, a.shown(&l.options), b.shown(&l.options))
}

// secret replaces the value of a secret option in errors.
const secret = "(secret)"

// shown returns the value of an option in o as errors show it.
func (r *row) shown(o *Options) string {
	if r.secret {
		return secret
	}
	return r.get(o)
}

// refuse returns the error for an invalid value of an option.
func refuse(r *row, text, origin, problem string) error {
	shown := quote(text)
	if r.secret {
		shown = secret
	}
	return fmt.Errorf("%s%s %s (%s): %s", dashes(origin), r.name, shown, origin, problem)
}

// refuseName returns the error for an unknown option. It does not contain the text after a sign that separates name and value
// in other formats, such as requirepass=secret, because this text may be a secret.
func refuseName(name, origin string) error {
	end := strings.IndexAny(name, "=:")
	if end > 0 {
		name = name[:end]
	}
	if end > 0 && find(name) != nil {
		return fmt.Errorf("%s%s (%s): separate the name and the value by a space", dashes(origin), name, origin)
	}
	advice := "--help lists the options"
	if near := nearest.Word(name, names()); near != "" {
		advice = fmt.Sprintf("did you mean %s%s?", dashes(origin), near)
	}
	return fmt.Errorf("%s%s (%s): unknown option, %s", dashes(origin), quote(name), origin, advice)
}

// names returns the names of all options.
func names() []string {
	list := make([]string, len(table))
	for i := range table {
		list[i] = table[i].name
	}
	return list
}

// dashes returns the prefix of an option's name in errors: "--" if the origin is a flag,
// otherwise "".
func dashes(origin string) string {
	if origin == fromFlag {
		return "--"
	}
	return ""
}
