package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// printHelp writes the usage of a subcommand and the help text of its flags. A default value is
// written in parentheses, unless it is empty or false.
func printHelp(w io.Writer, usage string, f *flag.FlagSet) {
	_, _ = io.WriteString(w, usage)
	f.VisitAll(func(o *flag.Flag) {
		value, help := flag.UnquoteUsage(o)
		if o.DefValue != "" && o.DefValue != "false" {
			help += " (" + o.DefValue + ")"
		}
		_, _ = fmt.Fprintf(w, "  %s\n        %s\n", strings.TrimSpace("--"+o.Name+" "+value), help)
	})
}
