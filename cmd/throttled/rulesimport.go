package main

import (
	"fmt"
	"io"
	"os"

	"github.com/throttledhq/throttled/rules/envoy"
)

// importRules converts the configuration files of Envoy's ratelimit service to a rules file on stdout. Notes about parts
// that are not converted are printed to stderr.
func importRules(names []string, from string, merge bool, stdout, stderr io.Writer) error {
	switch from {
	case "envoy":
	case "":
		return wrongUsage("--from is missing: write --from envoy")
	default:
		return wrongUsage("--from %s: only envoy is supported", from)
	}
	var sources []envoy.Source
	for _, name := range names {
		text, err := os.ReadFile(name) // #nosec G304 G703 -- the operator chooses the path
		if err != nil {
			return err
		}
		sources = append(sources, envoy.Source{Name: name, Text: text})
	}
	text, notes, err := envoy.Convert(sources, merge)
	if err != nil {
		return fmt.Errorf("the configuration cannot be converted\n%w", err)
	}
	for _, note := range notes {
		_, _ = fmt.Fprintf(stderr, "note: %v\n", note)
	}
	_, err = stdout.Write(text)
	return err
}
