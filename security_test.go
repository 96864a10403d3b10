package throttled

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tableRows returns the cells of the rows of the first table after a heading of a document, without the head.
func tableRows(t *testing.T, file, heading string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", file, heading)
	}
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "|") {
			if rows != nil {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		rows = append(rows, cells)
	}
	if len(rows) < 3 {
		t.Fatalf("%s: the table after %q has no rows", file, heading)
	}
	return rows[2:]
}

// licenseTexts maps identifiers of licenses to a text that the license file contains.
var licenseTexts = map[string]string{
	"MIT": "Permission is hereby granted, free of charge", "Apache-2.0": "Apache License", "MPL-2.0": "Mozilla Public License",
	"BSD-2-Clause": "Redistribution and use in source and binary forms", "BSD-3-Clause": "endorse or promote products",
}

// TestSupplyChain compares docs/supply-chain.md with the direct dependencies in go.mod, and with their license files.
func TestSupplyChain(t *testing.T) {
	checkDependencies(t, ".", tableRows(t, "docs/supply-chain.md", "## Direct dependencies"))
	of := map[string][][]string{}
	for _, row := range tableRows(t, "docs/supply-chain.md", "### Modules of their own") {
		for _, dir := range strings.Split(strings.ReplaceAll(row[2], "`", ""), ", ") {
			of[dir] = append(of[dir], []string{row[0], row[1], row[3]})
		}
	}
	for dir := range strings.FieldsSeq(makeVariable(t, "MODULES")) {
		if !strings.HasPrefix(dir, "tests/") {
			checkDependencies(t, dir, of[dir])
			delete(of, dir)
		}
	}
	for dir := range of {
		t.Errorf("docs/supply-chain.md lists dependencies of %s, which is not a module for users", dir)
	}
}

// checkDependencies compares rows of modules, licenses and reasons with the direct dependencies of the module in a
// directory. Those of this repository have no row.
func checkDependencies(t *testing.T, in string, rows [][]string) {
	t.Helper()
	dirs, unlisted := directDependencies(t, in), map[string]bool{}
	for path := range dirs {
		unlisted[path] = true
	}
	for _, row := range rows {
		dir, known := dirs[row[0]]
		if !known {
			t.Errorf("docs/supply-chain.md lists %s, which is not a direct dependency in go.mod of %s", row[0], in)
			continue
		}
		delete(unlisted, row[0])
		if row[2] == "" {
			t.Errorf("docs/supply-chain.md gives no reason for %s", row[0])
		}
		text := licenseOf(t, dir)
		for _, name := range strings.Split(row[1], ", ") {
			if want := licenseTexts[name]; want == "" || !strings.Contains(text, want) {
				t.Errorf("%s does not have the license %s", row[0], name)
			}
		}
	}
	for path := range unlisted {
		t.Errorf("docs/supply-chain.md does not list %s of %s: add its license and the reason", path, in)
	}
}

// directDependencies returns the directories of the direct dependencies of a module by their paths.
func directDependencies(t *testing.T, in string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{if not (or .Indirect .Main)}}{{.Path}} {{.Dir}}{{end}}", "all")
	cmd.Dir = in
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list -m in %s: %v", in, err)
	}
	dirs := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if path, dir, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(path+"/", module) {
			dirs[path] = dir
		}
	}
	return dirs
}

// licenseOf returns the text of the license files in the directory of a module, in one line.
func licenseOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "LICEN[SC]E*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no license file, error %v", dir, err)
	}
	var all []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Fields(string(text))...)
	}
	return strings.Join(all, " ")
}

// notParsers are the fuzz targets of arithmetic and tables, which do not parse bytes.
var notParsers = []string{
	"ban:FuzzDecide", "gcra:FuzzDecide", "gcra:FuzzDecideScaled", "gcra:FuzzNewLimit", "leaky:FuzzDecide", "leaky:FuzzDecideScaled",
	"tokenbucket:FuzzDecide", "tokenbucket:FuzzDecideScaled", "tokenbucket:FuzzNewLimit", "window:FuzzCalendar", "window:FuzzDecide",
	"windowlog:FuzzDecide", "internal/muldiv:FuzzMulDiv", "buckets:FuzzShard", "buckets:FuzzTable", "rules:FuzzCalendar", "rules:FuzzMatch",
	"resp:FuzzAppendLine",
}

// TestParsers checks that the fuzz targets in docs/security.md exist, and that each fuzz target of a parser is listed.
func TestParsers(t *testing.T) {
	targets, listed := fuzzTargets(t), map[string]bool{}
	for _, row := range tableRows(t, "docs/security.md", "### Parsers") {
		for _, target := range strings.Fields(strings.ReplaceAll(row[1], "`", "")) {
			dir, name, _ := strings.Cut(strings.TrimSuffix(target, ","), ":")
			listed[dir+":"+name] = true
			if !slices.Contains(targets, dir+":"+name) {
				t.Errorf("docs/security.md: %s has no fuzz target %s", dir, name)
			}
		}
	}
	for _, target := range targets {
		if !listed[target] && !slices.Contains(notParsers, target) {
			t.Errorf("docs/security.md does not list %s", target)
		}
	}
}

// fuzzTargets returns the fuzz targets of this module.
func fuzzTargets(t *testing.T) (targets []string) {
	t.Helper()
	dirs, err := exec.Command("go", "list", "-f", "{{.ImportPath}}", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	declaration := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)
	for path := range strings.FieldsSeq(string(dirs)) {
		dir := strings.TrimPrefix(path, module)
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range declaration.FindAllStringSubmatch(string(text), -1) {
				targets = append(targets, dir+":"+match[1])
			}
		}
	}
	return targets
}

// TestWorkflow checks that the workflow for a public forge runs the commands of .ci/run, in the same order.
func TestWorkflow(t *testing.T) {
	script, err := os.ReadFile(".ci/run")
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`(?m)^make .*$`).FindAllString(string(script), -1)
	if got := workflowTargets(t, "ci.yml"); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("the workflow runs %q, and .ci/run runs %q", got, want)
	}
}

// TestWorkflow_Security checks that the second workflow runs the checks of docs/security.md, which are targets of the Makefile.
func TestWorkflow_Security(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"make vulncheck", "make security"}
	if got := workflowTargets(t, "security.yml"); !slices.Equal(got, want) {
		t.Errorf("the workflow runs %q, want %q", got, want)
	}
	for _, command := range want {
		if target := "\n" + strings.TrimPrefix(command, "make ") + ": "; !strings.Contains(string(makefile), target) {
			t.Errorf("the Makefile has no target for %q", command)
		}
	}
}

// workflowTargets returns the commands of a workflow that run make.
func workflowTargets(t *testing.T, name string) (commands []string) {
	t.Helper()
	workflow, err := os.ReadFile(filepath.Join(".github/workflows", name))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^ +- run: (make .*)$`).FindAllStringSubmatch(string(workflow), -1) {
		commands = append(commands, m[1])
	}
	return commands
}

// TestGosec checks that docs/security.md answers exactly the rules of gosec that the Makefile excludes.
func TestGosec(t *testing.T) {
	var answered []string
	for _, row := range tableRows(t, "docs/security.md", "### Static analysis") {
		answered = append(answered, strings.Split(row[0], ", ")...)
	}
	slices.Sort(answered)
	if excluded := strings.Split(makeVariable(t, "GOSEC_EXCLUDED"), ","); !slices.Equal(answered, excluded) {
		t.Errorf("the Makefile excludes %q, docs/security.md answers %q", excluded, answered)
	}
}
