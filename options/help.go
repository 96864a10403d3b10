package options

import (
	"bytes"
	"fmt"
	"io"
)

const helpHead = `Usage: throttled [FILE] [--option value ...]
       throttled COMMAND ...

A rate-limit server that speaks the Redis protocol.

FILE is a configuration file like redis.conf: lines of "option value", # begins a comment.
  --config FILE      the same as FILE
  -h, --help         print this text
  -v, --version      print the version

` + Sources + `
CONFIG SET changes an option while the server runs, unless the option is marked with a +.
`

// Sources describes the places in which options can be set, in lines of at most 100 columns.
const Sources = `Options can be set in the file, in the environment (--tcp-keepalive is THROTTLED_TCP_KEEPALIVE,
--config is THROTTLED_CONFIG) and on the command line. The command line overrides the environment,
which overrides the file. BYTES accept a unit: 1k is 1000 and 1kb is 1024, likewise m, mb, g and gb.`

// Description describes an option for help texts.
type Description struct {
	Name, Group string
	Form        string // placeholder of the value, or its words, such as yes|no
	Default     string // as in a configuration file
	Help        string // a phrase without a period
	Fixed       bool   // used only when the server starts
}

// List returns the descriptions of all options, by group.
func List() []Description {
	defaults := Default()
	list := make([]Description, len(table))
	for i := range table {
		r := &table[i]
		list[i] = Description{r.name, r.group, r.form, quote(r.get(&defaults)), r.help, !r.reloads()}
	}
	return list
}

// Help writes the help text to w, in lines of at most 100 columns. It returns the error
// of w.
func Help(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(helpHead)
	group := ""
	for _, o := range List() {
		if o.Group != group {
			group = o.Group
			fmt.Fprintf(&b, "\n%-39s%s\n", group, "default")
		}
		mark := ' '
		if o.Fixed {
			mark = '+'
		}
		fmt.Fprintf(&b, "  --%-34s%c%-10s %s\n", o.Name+" "+o.Form, mark, o.Default, o.Help)
	}
	_, err := w.Write(b.Bytes())
	return err
}
