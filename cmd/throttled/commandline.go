package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/throttledhq/throttled/internal/nearest"
)

// usageError is an error in the arguments of a command, or in the options of the server or the files that they name. The program
// then exits with exitUsage.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// wrongUsage returns a usageError with the given text.
func wrongUsage(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

// newFlags returns a set without flags.
func newFlags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard) // execute prints errors
	f.Usage = func() {}
	return f
}

// execute runs a command with the arguments that follow its name, and returns the exit code.
func (n node) execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	n, args, err := n.descend(args)
	if err == nil {
		err = n.try(ctx, args, stdout, stderr)
	}
	usage := new(usageError)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		_, _ = fmt.Fprintf(stderr, "throttled %s: %v\n(throttled %s --help shows the usage)\n", n.path, err, n.path)
		return exitUsage
	}
	_, _ = fmt.Fprintf(stderr, "throttled %s: %v\n", n.path, err)
	return exitError
}

// descend returns the subcommand that the first arguments select, and the arguments that follow its name.
func (n node) descend(args []string) (node, []string, error) {
	for n.commands != nil && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		below := find(n.commands, args[0])
		if below == nil {
			return n, args, unknownCommand(args[0], n.commands)
		}
		n, args = node{below, n.path + " " + below.name}, args[1:]
	}
	return n, args, nil
}

// unknownCommand returns the error for a word that is not the name of a command in the list.
func unknownCommand(word string, list []command) error {
	names := commandNames(list)
	if near := nearest.Word(word, names); near != "" {
		return wrongUsage("unknown command %q, did you mean %s?", word, near)
	}
	return wrongUsage("unknown command %q: the commands are %s", word, strings.Join(names, ", "))
}

// commandNames returns the names of the commands in the list.
func commandNames(list []command) []string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].name
	}
	return names
}

// try parses the arguments and runs the action of the command, or prints its help text if they request it.
func (n node) try(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newFlags(n.path)
	var run action
	if n.bind != nil {
		run = n.bind(f)
	}
	operands, err := parseFlags(f, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return n.printHelp(stdout)
	case err != nil:
		return &usageError{n.flagError(f, err)}
	case run == nil:
		return wrongUsage("a command is missing: %s", strings.Join(commandNames(n.commands), ", "))
	case len(operands) < n.least || len(operands) > n.most:
		return wrongUsage("wrong number of arguments: write %s", n.usage())
	}
	return run(ctx, operands, stdout, stderr)
}

// parseFlags parses the flags in args, and returns the other arguments. Flags may follow operands; all arguments after --
// are operands.
func parseFlags(f *flag.FlagSet, args []string) (operands []string, err error) {
	for {
		if err := f.Parse(args); err != nil {
			return nil, err
		}
		rest := f.Args()
		parsed := len(args) - len(rest)
		if len(rest) == 0 || parsed > 0 && args[parsed-1] == "--" {
			return append(operands, rest...), nil
		}
		operands = append(operands, rest[0])
		args = rest[1:]
	}
}

// flagError rewrites an error of the flag package, which shows flags with one dash. It matches the text, because that
// package has no types for its errors. The value of an unknown flag, which may be a secret, is not shown.
func (n node) flagError(f *flag.FlagSet, err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		return n.unknownFlag(f, name)
	}
	if name, ok := strings.CutPrefix(err.Error(), "flag needs an argument: -"); ok {
		return fmt.Errorf("--%s needs a value", name)
	}
	text := strings.NewReplacer(" for flag -", " for --", " for -", " for --").Replace(err.Error())
	if text, ok := strings.CutSuffix(text, ": parse error"); ok {
		name := text[strings.LastIndex(text, "--")+len("--"):]
		return fmt.Errorf("%s: it must be %s", text, formOf(f.Lookup(name)))
	}
	return errors.New(text)
}

// formOf returns the form of the values of a flag, which is defined in f.
func formOf(o *flag.Flag) string {
	switch o.Value.(flag.Getter).Get().(type) {
	case time.Duration:
		return "a duration with a unit, such as 2s"
	case bool:
		return "true or false"
	}
	return "an integer"
}

// unknownFlag returns the error for a flag that the command does not have. It names the nearest flag of the command, or
// the command of the same group that has the flag.
func (n node) unknownFlag(f *flag.FlagSet, name string) error {
	var names []string
	f.VisitAll(func(o *flag.Flag) { names = append(names, o.Name) })
	if near := nearest.Word(name, append(names, "help")); near != "" {
		return fmt.Errorf("unknown flag --%s, did you mean --%s?", name, near)
	}
	for _, other := range n.siblings() {
		if other.flags().Lookup(name) != nil {
			return fmt.Errorf("unknown flag --%s: it is a flag of throttled %s", name, other.path)
		}
	}
	return fmt.Errorf("unknown flag --%s", name)
}

// siblings returns the commands with the same parent as a subcommand. A command of the program itself has none.
func (n node) siblings() []node {
	words := strings.Fields(n.path)
	if len(words) < 2 {
		return nil
	}
	all := tree("", commands())
	parent := strings.Join(words[:len(words)-1], " ")
	return slices.DeleteFunc(all, func(other node) bool {
		return !strings.HasPrefix(other.path, parent+" ")
	})
}
