package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/throttledhq/throttled/options"
)

const completionText = `The script completes commands, options, and the names of files and directories. Load it with one of

    source <(throttled completion bash)
    source <(throttled completion zsh)
    throttled completion fish | source`

// completes is the kind of words that complete a value.
type completes uint8

const (
	nothing    completes = iota
	fileNames            // names of files and directories
	dirNames             // names of directories
	fixedWords           // the words of a list
)

// place is a point of a command line with the words that can follow: the program or a command, by its path.
type place struct {
	path     string
	commands []command
	flags    []completedFlag
	operands string // placeholder of the operands
}

// completedFlag is a flag in a place.
type completedFlag struct{ name, value, help string }

// places returns the program and all commands.
func places() []place {
	root := place{commands: commands(), operands: "FILE"}
	for _, o := range options.List() {
		root.flags = append(root.flags, completedFlag{o.Name, o.Form, o.Help})
	}
	root.flags = append(root.flags,
		completedFlag{"config", "FILE", "configuration file"}, completedFlag{"version", "", "print the version"}, helpFlag)
	list := []place{root}
	for _, n := range tree("", commands()) {
		p := place{path: n.path, commands: n.commands, operands: operandOf(n.args)}
		n.flags().VisitAll(func(o *flag.Flag) {
			value, help := flag.UnquoteUsage(o)
			p.flags = append(p.flags, completedFlag{o.Name, value, help})
		})
		p.flags = append(p.flags, helpFlag)
		if p.operands == "COMMAND" && p.commands == nil {
			p.commands = commands()
		}
		list = append(list, p)
	}
	return list
}

var helpFlag = completedFlag{"help", "", "print the help text"}

// operandOf returns the first placeholder of operands in the arguments that the usage of a command shows.
func operandOf(args string) string {
	isValue := false
	for _, word := range strings.Fields(args) {
		word = strings.Trim(word, "[]")
		switch {
		case isValue:
			isValue = false
		case strings.HasPrefix(word, "--"):
			isValue = true
		case word != "...":
			return word
		}
	}
	return ""
}

// completion returns the kind of the words that complete a placeholder, and the words if they are fixed.
func completion(placeholder string) (completes, []string) {
	list := strings.Split(placeholder, "|")
	switch {
	case list[0] == "FILE" || list[0] == "PATH":
		return fileNames, nil
	case list[0] == "DIR":
		return dirNames, nil
	case len(list) > 1 && strings.ToLower(placeholder) == placeholder:
		return fixedWords, list
	}
	return nothing, nil
}

// shells holds the function that writes the script of each shell.
var shells = map[string]func([]place) string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}

// bindCompletion binds the command "throttled completion".
func bindCompletion(*flag.FlagSet) action {
	return func(_ context.Context, operands []string, stdout, _ io.Writer) error {
		script, ok := shells[operands[0]]
		if !ok {
			return wrongUsage("unknown shell %q: write bash, zsh or fish", operands[0])
		}
		_, err := io.WriteString(stdout, script(places()))
		return err
	}
}

// commandPatterns returns the paths of all commands as alternatives of a pattern, each in quotes.
func commandPatterns(all []place) string {
	var paths []string
	for _, p := range all {
		for _, c := range p.commands {
			if path := strings.TrimSpace(p.path + " " + c.name); p.path != "help" {
				paths = append(paths, `"`+path+`"`)
			}
		}
	}
	return strings.Join(paths, "|")
}

// flagNames returns the names of the flags of a place, each after two dashes.
func (p place) flagNames() string {
	var names []string
	for _, f := range p.flags {
		names = append(names, "--"+f.name)
	}
	return strings.Join(names, " ")
}

// valuePatterns returns the flags of all places whose value is completed in the given way, as alternatives of a pattern. Each
// consists of the path and the flag, in quotes. For the kind fixedWords, they are grouped by the words.
func valuePatterns(all []place, kind completes) map[string][]string {
	patterns := map[string][]string{}
	for _, p := range all {
		for _, f := range p.flags {
			k, list := completion(f.value)
			if f.value != "" && k == kind {
				joined := strings.Join(list, " ")
				patterns[joined] = append(patterns[joined], fmt.Sprintf(`"%s --%s"`, p.path, f.name))
			}
		}
	}
	return patterns
}
