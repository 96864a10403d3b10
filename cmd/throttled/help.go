package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/throttledhq/throttled/options"
)

// The columns of the help text of a command, as in the help text of the options.
const (
	helpColumns = 100 // longest line
	helpIndent  = 50  // column in which the texts of flags begin
)

// printHelp writes the help text of a command.
func (n node) printHelp(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s\n\n%s%s.\n", n.usage(), strings.ToUpper(n.help[:1]), n.help[1:])
	if n.text != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(n.text))
	}
	b.WriteString("\nOptions                                default\n")
	n.flags().VisitAll(func(o *flag.Flag) { b.WriteString(flagLine(o)) })
	b.WriteString("  -h, --help                                      print this text\n")
	if n.commands != nil {
		b.WriteString(commandLines("Commands", tree(n.path, n.commands)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// flagLine returns the lines of a flag in the help text.
func flagLine(o *flag.Flag) string {
	value, help := flag.UnquoteUsage(o)
	line := fmt.Sprintf("  %-36s %-10s ", strings.TrimSpace("--"+o.Name+" "+value), shownDefault(o))
	if len(line) > helpIndent {
		line = strings.TrimRight(line, " ") + "\n" + strings.Repeat(" ", helpIndent)
	}
	return line + strings.Join(wrap(help, helpColumns-helpIndent), "\n"+strings.Repeat(" ", helpIndent)) + "\n"
}

// shownDefault returns the default value of a flag as the help text shows it. It is empty for a flag without a value.
func shownDefault(o *flag.Flag) string {
	if o.DefValue == "false" {
		return ""
	}
	return o.DefValue
}

// wrap divides a text into lines of at most the given number of columns, unless a word is longer.
func wrap(text string, columns int) (lines []string) {
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last < 0 || len(lines[last])+1+len(word) > columns {
			lines = append(lines, word)
			continue
		}
		lines[last] += " " + word
	}
	return lines
}

// commandLines returns the lines of commands in a help text, below a title.
func commandLines(title string, nodes []node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", title)
	for _, n := range nodes {
		fmt.Fprintf(&b, "  %-27s %s\n", "throttled "+n.path, n.help)
	}
	return b.String()
}

// printProgramHelp writes the help text of the options and the commands.
func printProgramHelp(w io.Writer) error {
	if err := options.Help(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, commandLines("Commands (--help after a command prints its options)", tree("", commands())))
	return err
}

// bindHelp binds the command "throttled help".
func bindHelp(f *flag.FlagSet) action {
	man := f.Bool("man", false, "print the man page instead, in the language of man(7)")
	dir := f.String("man-dir", "", "write the man pages of the program and of all commands to `DIR`")
	return func(_ context.Context, words []string, stdout, _ io.Writer) error {
		if *dir != "" {
			return writeManPages(*dir)
		}
		n, err := lookUp(words)
		switch {
		case err != nil:
			return err
		case *man:
			_, err := io.WriteString(stdout, manPage(n))
			return err
		case n.command == nil:
			return printProgramHelp(stdout)
		}
		return n.printHelp(stdout)
	}
}

// lookUp returns the command with the given words. Its field command is nil if there are no words, which name the program.
func lookUp(words []string) (n node, err error) {
	list := commands()
	for _, word := range words {
		found := find(list, word)
		if found == nil {
			return n, unknownCommand(word, list)
		}
		n, list = node{found, strings.TrimSpace(n.path + " " + word)}, found.commands
	}
	return n, nil
}

// writeManPages writes the man pages of the program and of all commands to a directory, which is created if necessary.
func writeManPages(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { // #nosec G301 -- man pages are no secrets
		return err
	}
	for _, n := range append([]node{{}}, tree("", commands())...) {
		if err := os.WriteFile(filepath.Join(dir, manName(n.path)+".1"), []byte(manPage(n)), 0o644); err != nil { // #nosec G306 -- man pages are no secrets
			return err
		}
	}
	return nil
}

// bindVersion binds the command "throttled version".
func bindVersion(*flag.FlagSet) action {
	return func(_ context.Context, _ []string, stdout, _ io.Writer) error {
		_, err := fmt.Fprintln(stdout, "throttled", version)
		return err
	}
}
