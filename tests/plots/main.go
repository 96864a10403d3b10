package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("plots", flag.ExitOnError)
	only := flags.Bool("accuracy", false, "only measure SLIDING against LOG, without drawing")
	dir := flags.String("dir", "../../docs/plots", "directory for the images")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !*only {
		if err := drawInto(*dir, out); err != nil {
			return err
		}
	}
	return printAccuracy(out)
}

// drawInto writes the plots into a directory.
func drawInto(dir string, out io.Writer) error {
	pictures, err := drawAll()
	if err != nil {
		return err
	}
	for _, p := range pictures {
		name := filepath.Join(dir, p.name)
		if err := os.WriteFile(name, p.svg, 0o644); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, name); err != nil {
			return err
		}
	}
	return nil
}

// printAccuracy runs all measurements and prints a line for each one when it is complete.
func printAccuracy(out io.Writer) error {
	if _, err := fmt.Fprintln(out, accuracyHeader); err != nil {
		return err
	}
	for _, s := range settings() {
		if _, err := fmt.Fprintln(out, s.measure().row(s)); err != nil {
			return err
		}
	}
	return nil
}
