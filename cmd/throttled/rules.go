package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // time zones of rules files, for machines without a database of time zones

	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/ruleset"
)

const rulesUsage = `Usage: throttled rules check FILE [FILE ...]
       throttled rules explain [--at TIME] FILE DOMAIN [NAME=VALUE ...]
       throttled rules test FILE [FILE ...]
       throttled rules import --from envoy [--merge] FILE [FILE ...]
       throttled rules schema [--tests]

Flags precede the files.

check verifies rules files. Each problem is printed as FILE:LINE:COLUMN: KEYS: PROBLEM; REMEDY.
explain prints which limits apply to a request with the given attributes, why others do not, and the decision.
test runs test files: requests with their times, and the decisions that are expected.
import prints a rules file that decides each descriptor like the configuration files of Envoy's ratelimit service.
    The keys replaces and quota_mode, which relate several descriptors of one request, are stored and not applied.
schema prints a JSON Schema, with which editors complete and check rules files or test files.

`

// errRulesUsage is returned for wrong arguments. It may be wrapped.
var errRulesUsage = errors.New("wrong arguments")

// errRulesForm is returned for an unknown subcommand, or a wrong number of arguments.
var errRulesForm = fmt.Errorf(`%w: write "check FILE ...", "explain FILE DOMAIN NAME=VALUE ...", "test FILE ...", "import --from envoy FILE ..." or "schema"`, errRulesUsage)

// rulesCommands are the subcommands of "throttled rules".
var rulesCommands = []string{"check", "explain", "test", "import", "schema"}

// flagOwners maps each flag of "throttled rules" to its subcommand.
var flagOwners = map[string]string{"at": "explain", "from": "import", "merge": "import", "tests": "schema"}

// rulesFlags holds the flags of "throttled rules".
type rulesFlags struct {
	at    *string // nil if not given
	from  string
	merge bool
	tests bool
}

// flagSet returns the flags, which are stored in r.
func (r *rulesFlags) flagSet() *flag.FlagSet {
	f := flag.NewFlagSet("rules", flag.ContinueOnError)
	f.SetOutput(io.Discard) // runRules prints errors
	f.Func("at", "explain: `TIME` of the request, such as 2027-01-31T18:00:00+01:00; default: now", func(text string) error {
		r.at = &text
		return nil
	})
	f.StringVar(&r.from, "from", "", "import: `SYSTEM` whose files are converted: envoy")
	f.BoolVar(&r.merge, "merge", false, "import: merge files with the same domain, like MERGE_DOMAIN_CONFIG of Envoy's service")
	f.BoolVar(&r.tests, "tests", false, "schema: print the schema of test files")
	return f
}

// time returns the value of --at, or the current time.
func (r *rulesFlags) time() (time.Time, error) {
	if r.at == nil {
		return time.Now(), nil
	}
	t, err := time.Parse(time.RFC3339, *r.at)
	if err != nil {
		return t, fmt.Errorf("%w: --at %s: write a time such as 2027-01-31T18:00:00Z", errRulesUsage, *r.at)
	}
	return t, nil
}

// rulesFlagError rewrites an error of the flag package, which shows flags with one dash. It matches the text, because that
// package has no types for its errors.
func rulesFlagError(err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		return fmt.Errorf("%w: unknown flag --%s", errRulesUsage, name)
	}
	if name, ok := strings.CutPrefix(err.Error(), "flag needs an argument: -"); ok {
		return fmt.Errorf("%w: --%s needs a value", errRulesUsage, name)
	}
	return fmt.Errorf("%w: %s", errRulesUsage, strings.Replace(err.Error(), " for -", " for --", 1))
}

// runRules runs the command "throttled rules".
func runRules(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var flags rulesFlags
	f := flags.flagSet()
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		printHelp(stdout, rulesUsage, f)
		return exitOK
	}
	if err != nil {
		err = rulesFlagError(err)
	} else {
		err = checkFlags(name, f)
	}
	if err == nil {
		if err = runRulesCommand(ctx, name, f.Args(), flags, stdout, stderr); !errors.Is(err, errRulesUsage) {
			return check(stderr, err)
		}
	}
	_, _ = fmt.Fprintf(stderr, "throttled rules: %v\n(throttled rules --help shows the arguments)\n", err)
	return exitUsage
}

// checkFlags returns an error if a flag belongs to another subcommand than the one with the given name, or follows a file.
func checkFlags(name string, f *flag.FlagSet) (err error) {
	f.Visit(func(given *flag.Flag) {
		if flagOwners[given.Name] != name {
			err = errForeignFlag(given.Name)
		}
	})
	if err != nil {
		return err
	}
	for _, word := range f.Args() {
		given, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch owner, known := flagOwners[given]; {
		case !known || !strings.HasPrefix(word, "-"):
		case owner != name:
			return errForeignFlag(given)
		default:
			return fmt.Errorf("%w: flags precede the files: write --%s before %s", errRulesUsage, given, f.Arg(0))
		}
	}
	return nil
}

// errForeignFlag returns the error for a flag of another subcommand.
func errForeignFlag(name string) error {
	return fmt.Errorf("%w: --%s is a flag of rules %s only", errRulesUsage, name, flagOwners[name])
}

// runRulesCommand runs the subcommand with the given name.
func runRulesCommand(ctx context.Context, name string, args []string, flags rulesFlags, stdout, stderr io.Writer) error {
	switch {
	case name == "check" && len(args) >= 1:
		return checkAllRules(args, stdout)
	case name == "explain" && len(args) >= 2:
		return explainRules(args[0], args[1], args[2:], flags, stdout)
	case name == "import" && len(args) >= 1:
		return importRules(args, flags.from, flags.merge, stdout, stderr)
	case name == "test" && len(args) >= 1:
		return testRules(ctx, args, stdout)
	case name == "schema" && len(args) == 0 && flags.tests:
		_, err := stdout.Write(rules.TestSchema())
		return err
	case name == "schema" && len(args) == 0:
		_, err := stdout.Write(rules.Schema())
		return err
	}
	if name == "" || slices.Contains(rulesCommands, name) {
		return errRulesForm
	}
	return fmt.Errorf("%q is not a command of rules: %w", name, errRulesForm)
}

// readRules reads and parses a rules file. It returns an error if a server would refuse the file.
func readRules(name string) (*rules.File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if len(text) > ruleset.MaxText {
		return nil, fmt.Errorf("%s: %w", name, ruleset.ErrTooLarge)
	}
	file, err := rules.Parse(name, text, time.LoadLocation)
	if err != nil {
		return nil, fmt.Errorf("the rules are not valid\n%w", err)
	}
	return file, nil
}

// checkAllRules verifies rules files. Each file is verified, even if another one has problems. If there are several, the
// name of each file precedes its domains.
func checkAllRules(names []string, stdout io.Writer) error {
	var errs []error
	for _, name := range names {
		prefix := ""
		if len(names) > 1 {
			prefix = name + ": "
		}
		if err := checkRules(name, prefix, stdout); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// checkRules verifies a rules file and prints the number of limits of each domain, in lines that begin with prefix.
func checkRules(name, prefix string, stdout io.Writer) error {
	file, err := readRules(name)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, domain := range file.Domains {
		fmt.Fprintf(&b, "%s%s: limits: %d\n", prefix, domain.Name, len(domain.Limits))
	}
	_, err = io.WriteString(stdout, b.String())
	return err
}

// explainRules prints which limits of a domain apply to a request.
func explainRules(name, domain string, words []string, flags rulesFlags, stdout io.Writer) error {
	at, err := flags.time()
	if err != nil {
		return err
	}
	file, err := readRules(name)
	if err != nil {
		return err
	}
	x := file.Domain(domain)
	if x == nil {
		return fmt.Errorf("%s has no domain %q: its domains are %s", name, domain, strings.Join(file.Names(), ", "))
	}
	request, err := parseAttributes(words)
	if err != nil {
		return err
	}
	_, err = io.WriteString(stdout, x.Describe(request, at))
	return err
}

// parseAttributes parses the attributes of a request, which have the form name=value.
func parseAttributes(words []string) (rules.Attributes, error) {
	var pairs [][]byte
	for _, word := range words {
		name, value, found := strings.Cut(word, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%q is not an attribute: write NAME=VALUE", word)
		}
		pairs = append(pairs, []byte(name), []byte(value))
	}
	return rules.AttributesOf(pairs)
}
