package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
)

func main() {
	root := flag.String("root", "../..", "`directory` of the repository")
	path := flag.String("figures", "figures.json", "`file` with the committed figures")
	write := flag.Bool("write", false, "replace the committed figures")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := execute(os.Stdout, *root, *path, *write); err != nil {
		fmt.Fprintln(os.Stderr, "shape:", err)
		os.Exit(1)
	}
}

// execute prints the figures of the repository at root next to those in the file at path. If write
// is set, execute replaces the file. A missing file means that nothing has been committed yet.
func execute(w io.Writer, root, path string, write bool) error {
	t, err := load(root)
	if err != nil {
		return fmt.Errorf("read the code: %w", err)
	}
	committed, err := readFigures(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the committed figures: %w", err)
	}
	current := measureTree(t)
	if err := current.print(w, committed); err != nil {
		return err
	}
	if !write {
		return nil
	}
	return current.figures().write(path)
}
