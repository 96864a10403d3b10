package options

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// What the command line may ask for in place of a server.
var (
	ErrHelp    = errors.New("help requested")
	ErrVersion = errors.New("version requested")
)

const (
	fromFlag  = "flag"
	configEnv = "THROTTLED_CONFIG" // environment variable that names the configuration file
)

// Load gathers the settings from their sources: the configuration file, the
// environment, which lookupEnv reads (pass os.LookupEnv), and args, the command line
// without the name of the program.
//
// The configuration file is the first argument, unless that begins with a minus, or
// the value of --config, or of THROTTLED_CONFIG. Without any of them there is none.
// A variable that is set but empty counts as an empty value, save for THROTTLED_CONFIG.
//
// The error is [ErrHelp] or [ErrVersion] when args ask for that. Any other names the
// option, the value, where it came from and what would be right.
func Load(args []string, lookupEnv func(string) (string, bool)) (*Store, error) {
	path, given, err := parseFlags(args)
	if err != nil {
		return nil, err
	}
	if path == nil {
		p, _ := lookupEnv(configEnv)
		path = &p
	}
	from := &sources{path: *path, given: given, lookupEnv: lookupEnv}
	o, file, err := from.read()
	if err != nil {
		return nil, err
	}
	from.path = file // found again where the working directory has changed
	s := newStore(o, file)
	s.sources = from
	return s, nil
}

// parseFlags returns the options that args give, in order, and the configuration file,
// which is nil if args do not speak of one.
func parseFlags(args []string) (path *string, given []Pair, err error) {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		path, args = &args[0], args[1:]
	}
	fs := flag.NewFlagSet("throttled", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are returned, and the caller prints
	for i := range table {
		name := table[i].name
		fs.Func(name, "", func(v string) error {
			given = append(given, Pair{name, v})
			return nil
		})
	}
	fs.Func("config", "", func(v string) error {
		if path != nil && *path != v {
			return fmt.Errorf("%s is the configuration file already", quote(*path))
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
	case fs.NArg() > 0:
		return nil, nil, fmt.Errorf("unexpected argument %s: the configuration file comes first, and a value of several words is quoted", quote(fs.Arg(0)))
	}
	return path, given, nil
}

// flagError words the errors of the flag package as those of the other sources are. The
// package has no types for them.
func flagError(err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		return refuseName(name, fromFlag)
	}
	if name, ok := strings.CutPrefix(err.Error(), "flag needs an argument: -"); ok {
		return fmt.Errorf("--%s (%s): needs a value", name, fromFlag)
	}
	return err
}

// loader gathers values and remembers where each came from.
type loader struct {
	options Options
	origin  map[string]string // by option
	before  map[string]string // by option: what the source that is being read has given it so far
}

// begin starts a source: what the earlier ones have given to an option does not add up
// with what this one gives it.
func (l *loader) begin() { l.before = map[string]string{} }

// readFile applies the configuration file and returns its absolute path, so that it is
// found again when the working directory has changed. An empty path is no file.
func (l *loader) readFile(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find config %s: %w", quote(path), err)
	}
	data, err := os.ReadFile(abs)
	if err != nil {
		return "", fmt.Errorf("read config: %w", err)
	}
	return abs, l.readLines(path, parseLines(data))
}

// readLines applies the lines of the file called path.
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
			return fmt.Errorf("%s (%s): takes one value, so one with spaces is quoted", r.name, origin)
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
		if !ok {
			continue
		}
		if err := l.setLoose(r, text, name); err != nil {
			return err
		}
	}
	return nil
}

// envName returns the environment variable of an option.
func envName(option string) string {
	return "THROTTLED_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// setLoose is set for flags and environments, in which people and tools put the other
// usual words for yes and no.
func (l *loader) setLoose(r *row, text, origin string) error {
	meant := text
	if r.form == formYesNo {
		switch strings.ToLower(text) {
		case "true", "1":
			meant = "yes"
		case "false", "0":
			meant = "no"
		}
	}
	return l.set(r, text, meant, origin)
}

// set gives an option the value that is meant by text.
func (l *loader) set(r *row, text, meant, origin string) error {
	v := r.field(&l.options)
	meant = r.joined(l.before[r.name], meant)
	if v.Set(meant) != nil {
		return refuse(r, text, origin, "must be "+v.want())
	}
	l.origin[r.name], l.before[r.name] = origin, meant
	return nil
}

// refuseConflict blames the first of the two options that has been set at all.
func (l *loader) refuseConflict(c *conflict) error {
	for _, name := range c.names {
		if origin, ok := l.origin[name]; ok {
			r := find(name)
			return refuse(r, r.get(&l.options), origin, l.explain(c))
		}
	}
	panic("options: the defaults conflict: " + c.reason)
}

// explain gives the reason of a conflict with the values it is about.
func (l *loader) explain(c *conflict) string {
	a, b := find(c.names[0]), find(c.names[1])
	return fmt.Sprintf("%s (%s and %s)", c.reason, a.get(&l.options), b.get(&l.options))
}

// refuse is the error for an option's value.
func refuse(r *row, text, origin, problem string) error {
	shown := quote(text)
	if r.secret {
		shown = "(secret)"
	}
	return fmt.Errorf("%s%s %s (%s): %s", dashes(origin), r.name, shown, origin, problem)
}

// refuseName is the error for a name that no option has.
func refuseName(name, origin string) error {
	advice := "--help lists the options"
	if near := nearest(name); near != "" {
		advice = fmt.Sprintf("did you mean %s%s?", dashes(origin), near)
	}
	return fmt.Errorf("%s%s (%s): unknown option, %s", dashes(origin), quote(name), origin, advice)
}

// dashes is what stands before an option's name where it came from.
func dashes(origin string) string {
	if origin == fromFlag {
		return "--"
	}
	return ""
}
