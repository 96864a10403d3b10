package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	_ "time/tzdata" // time zones of rules files, for machines without a database of time zones

	"github.com/throttledhq/throttled/rules"
	"github.com/throttledhq/throttled/ruleset"
)

// rulesCommands returns the subcommands of "throttled rules".
func rulesCommands() []command {
	return []command{
		{
			name: "check", args: "FILE ...", least: 1, most: unlimited, bind: bindRulesCheck,
			help: "verify rules files",
			text: "Prints the domains of each file, or its problems as FILE:LINE:COLUMN: KEYS: PROBLEM; REMEDY.",
		},
		{
			name: "explain", args: "[--option value ...] FILE DOMAIN [NAME=VALUE ...]", least: 2, most: unlimited, bind: bindRulesExplain,
			help: "explain the decision of a request with the given attributes",
			text: "Prints which limits apply to the request, why others do not, and the decision.",
		},
		{
			name: "test", args: "FILE ...", least: 1, most: unlimited, bind: bindRulesTest,
			help: "run test files of rules",
			text: "A test file has requests with their times, and the decisions that are expected.",
		},
		{
			name: "import", args: "--from envoy [--option value ...] FILE ...", least: 1, most: unlimited, bind: bindRulesImport,
			help: "convert the configuration of Envoy's ratelimit service",
			text: `Prints a rules file that decides each descriptor like the given configuration files. The keys
replaces and quota_mode, which relate several descriptors of one request, are stored but not
applied.`,
		},
		{
			name: "schema", args: "[--option value ...]", bind: bindRulesSchema,
			help: "print a JSON Schema, with which editors complete and check files",
		},
	}
}

// bindRulesCheck binds the command "throttled rules check".
func bindRulesCheck(*flag.FlagSet) action {
	return func(_ context.Context, files []string, stdout, _ io.Writer) error {
		return checkAllRules(files, stdout)
	}
}

// bindRulesExplain binds the command "throttled rules explain".
func bindRulesExplain(f *flag.FlagSet) action {
	at := time.Now()
	f.Func("at", "`TIME` of the request, such as 2027-01-31T18:00:00+01:00; by default, the current time", func(text string) (err error) {
		at, err = time.Parse(time.RFC3339, text)
		if err != nil {
			return errors.New("write a time such as 2027-01-31T18:00:00Z")
		}
		return nil
	})
	return func(_ context.Context, words []string, stdout, _ io.Writer) error {
		return explainRules(words[0], words[1], words[2:], at, stdout)
	}
}

// bindRulesTest binds the command "throttled rules test".
func bindRulesTest(*flag.FlagSet) action {
	return func(ctx context.Context, files []string, stdout, _ io.Writer) error {
		return testRules(ctx, files, stdout)
	}
}

// bindRulesImport binds the command "throttled rules import".
func bindRulesImport(f *flag.FlagSet) action {
	from := f.String("from", "", "`SYSTEM` whose files are converted: envoy")
	merge := f.Bool("merge", false, "merge files with the same domain, like MERGE_DOMAIN_CONFIG of Envoy's service")
	return func(_ context.Context, files []string, stdout, stderr io.Writer) error {
		return importRules(files, *from, *merge, stdout, stderr)
	}
}

// bindRulesSchema binds the command "throttled rules schema".
func bindRulesSchema(f *flag.FlagSet) action {
	tests := f.Bool("tests", false, "print the schema of test files instead of that of rules files")
	return func(_ context.Context, _ []string, stdout, _ io.Writer) error {
		schema := rules.Schema
		if *tests {
			schema = rules.TestSchema
		}
		_, err := stdout.Write(schema())
		return err
	}
}

// readRules reads and parses a rules file. It returns an error if a server would refuse the file.
func readRules(name string) (*rules.File, error) {
	text, err := os.ReadFile(name) // #nosec G304 G703 -- the operator chooses the path
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
func explainRules(name, domain string, words []string, at time.Time, stdout io.Writer) error {
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
