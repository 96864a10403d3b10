package options

import (
	"bytes"
	"fmt"
	"io"
)

const helpHead = `Usage: throttled [FILE] [--option value ...]

A rate-limit server that speaks the Redis protocol.

FILE is a configuration file like redis.conf: lines of "option value", # begins a comment.
  --config FILE      the same as FILE
  -h, --help         print this text
  -v, --version      print the version

Options can be set in the file, in the environment (--tcp-keepalive is THROTTLED_TCP_KEEPALIVE,
--config is THROTTLED_CONFIG) and on the command line. The command line overrides the environment,
which overrides the file. BYTES accept a unit: 1k is 1000 and 1kb is 1024, likewise m, mb, g and gb.
CONFIG SET changes an option while the server runs, unless the option is marked with a +.
`

// Help writes the help text to w, in lines of at most 100 columns. It returns the error
// of w.
func Help(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(helpHead)
	defaults := Default()
	group := ""
	for i := range table {
		r := &table[i]
		if r.group != group {
			group = r.group
			fmt.Fprintf(&b, "\n%-39s%s\n", group, "default")
		}
		mark := ' '
		if !r.reloads() {
			mark = '+'
		}
		fmt.Fprintf(&b, "  --%-34s%c%-10s %s\n", r.name+" "+r.form, mark, quote(r.get(&defaults)), r.help)
	}
	_, err := w.Write(b.Bytes())
	return err
}
