// Command go is the driver of go-redis, rueidis, redigo and radix, selected by the option --client; see ../README.md.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

// options are the options of the command line.
type options struct {
	client, check, mode    string
	addresses              []string
	resp                   int
	user, password, caFile string
	key, until             string
	callers                int
}

func parse() options {
	var o options
	flag.StringVar(&o.client, "client", "", "library")
	flag.StringVar(&o.check, "check", "", "checks, separated by commas")
	addresses := flag.String("addr", "", "addresses, separated by commas")
	flag.StringVar(&o.mode, "mode", "standalone", "standalone, cluster or sentinel")
	flag.IntVar(&o.resp, "resp", 0, "protocol version")
	flag.StringVar(&o.user, "user", "", "user")
	flag.StringVar(&o.password, "password", "", "password")
	flag.StringVar(&o.caFile, "tls-ca", "", "file with the CA certificate")
	flag.StringVar(&o.key, "key", "", "prefix of keys")
	flag.StringVar(&o.until, "until", "", "file at which the load ends")
	flag.IntVar(&o.callers, "callers", 1, "concurrent callers")
	flag.Parse()
	o.addresses = strings.Split(*addresses, ",")
	return o
}

// result is a line of output.
type result map[string]any

func write(r result) {
	line, err := json.Marshal(r)
	if err != nil {
		line = []byte(err.Error()) // the harness reports lines that are not JSON
	}
	fmt.Println(string(line))
}

func main() {
	o := parse()
	lib, ok := libraries[o.client]
	if !ok {
		fmt.Fprintf(os.Stderr, "unknown client %q\n", o.client)
		os.Exit(2)
	}
	run := checks{options: o, library: lib}
	for name := range strings.SplitSeq(o.check, ",") {
		r, err := run.check(context.Background(), name)
		if r == nil {
			r = result{}
		}
		r["check"], r["ok"] = name, err == nil
		if err != nil {
			r["detail"] = err.Error()
		}
		write(r)
	}
}

// version returns the version of a module in this program.
func version(module string) (result, error) {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return result{"detail": strings.TrimPrefix(dependency.Version, "v")}, nil
		}
	}
	return nil, fmt.Errorf("the program does not contain the module %s", module)
}
