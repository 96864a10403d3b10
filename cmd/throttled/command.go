package main

import (
	"context"
	"flag"
	"io"
	"strings"
)

// command is a command of the program, such as "throttled check". Its arguments, help text, completion and man page are
// derived from its fields.
type command struct {
	name  string
	args  string // arguments as the usage shows them; the placeholders select completions
	least int    // smallest number of operands: arguments that are not flags
	most  int    // largest number of operands, or unlimited
	help  string // purpose, in one line without a period
	text  string // description, in paragraphs with lines of at most 100 columns
	// bind adds the flags of the command to f, and returns the action that uses their values. It is nil for a command
	// with subcommands.
	bind     func(f *flag.FlagSet) action
	commands []command // subcommands
}

// unlimited is the most operands of a command that takes any number.
const unlimited = 1 << 30

// action runs a command after its flags were parsed. An error that wraps a usageError concerns the arguments.
type action func(ctx context.Context, operands []string, stdout, stderr io.Writer) error

// commands returns the commands, which the first argument of the program selects. A configuration file that has the name
// of a command must be given as a path, for example ./check.
func commands() []command {
	return []command{
		{
			name: "check", args: "FILE|DIR", least: 1, most: 1, bind: bindCheck,
			help: "verify a snapshot or a data directory, and describe it",
			text: checkText,
		},
		{
			name: "dump", args: "FILE|DIR", least: 1, most: 1, bind: bindDump,
			help: "print the keys of a snapshot or a data directory",
			text: dumpText,
		},
		{
			name: "certs", args: "--cluster NAME [--option value ...] NODE ...", most: unlimited, bind: bindCerts,
			help: "create the certificates of the nodes of a cluster",
			text: certsText,
		},
		{
			name: "recover", args: "--data-dir DIR [--option value ...] [NODE=HOST:PORT ...]", most: unlimited, bind: bindRecover,
			help: "recover a cluster that has lost its majority",
			text: recoverText,
		},
		{
			name: "rules", args: "COMMAND ...", commands: rulesCommands(),
			help: "verify, explain, test or import rules files",
		},
		{
			name: "health", args: "[--option value ...]", bind: bindHealth,
			help: "exit with 0 if a server is ready, otherwise with 1",
			text: healthText,
		},
		{
			name: "backup", args: "--out FILE [--option value ...]", bind: bindBackup,
			help: "write a snapshot of a running server or cluster",
			text: backupText,
		},
		{
			name: "restore", args: "--from FILE --data-dir DIR [--option value ...] [NODE=HOST:PORT ...]", most: unlimited, bind: bindRestore,
			help: "create a data directory from a backup",
			text: restoreText,
		},
		{
			name: "import", args: "--from URL [--dir DIR] [--option value ...]", most: unlimited, bind: bindImport,
			help: "create a snapshot from redis-cell or Dragonfly",
			text: importText,
		},
		{
			name: "help", args: "[--option value ...] [COMMAND ...]", most: unlimited, bind: bindHelp,
			help: "print the help text of the program or of a command",
			text: "The texts are those that --help prints.",
		},
		{
			name: "completion", args: "bash|zsh|fish", least: 1, most: 1, bind: bindCompletion,
			help: "print a script that completes command lines in a shell",
			text: completionText,
		},
		{name: "version", bind: bindVersion, help: "print the version of the program", text: "The same as throttled --version."},
	}
}

// find returns the command with the given name, or nil.
func find(list []command, name string) *command {
	for i := range list {
		if list[i].name == name {
			return &list[i]
		}
	}
	return nil
}

// node is a command with its place in the tree of commands.
type node struct {
	*command
	path string // the words of the command, such as "rules check"; "" for the program itself
}

// flags returns the flags of the command.
func (n node) flags() *flag.FlagSet {
	f := newFlags(n.path)
	if n.bind != nil {
		n.bind(f)
	}
	return f
}

// usage returns the usage of the command.
func (n node) usage() string {
	return strings.TrimSpace("throttled " + n.path + " " + n.args)
}

// tree returns the given commands and their subcommands, in the order of the table. The path of each begins with prefix.
func tree(prefix string, list []command) (nodes []node) {
	for i := range list {
		path := strings.TrimSpace(prefix + " " + list[i].name)
		nodes = append(nodes, node{&list[i], path})
		nodes = append(nodes, tree(path, list[i].commands)...)
	}
	return nodes
}
