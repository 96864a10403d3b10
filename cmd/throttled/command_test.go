package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestCommands checks that each command has the same form: its --help, its usage, and its errors.
func TestCommands(t *testing.T) {
	for _, n := range tree("", commands()) {
		code, help, errs := words(n.path).with("--help")
		if code != exitOK || errs != "" || !strings.HasPrefix(help, "Usage: throttled "+n.path) {
			t.Errorf("%s --help exits with %d, stdout %q, stderr %q; want 0, and the usage on stdout only", n.path, code, help, errs)
		}
		if _, short, _ := words(n.path).with("operand", "-h"); n.commands == nil && short != help {
			t.Errorf("%s operand -h prints %q, want the text of --help", n.path, short)
		}
		if _, text, _ := words("help").with(strings.Fields(n.path)...); text != help {
			t.Errorf("help %s prints %q, want the text of --help", n.path, text)
		}
		for line := range strings.Lines(help) {
			if line = strings.TrimSuffix(line, "\n"); len(line) > helpColumns || strings.TrimRight(line, " ") != line {
				t.Errorf("%s --help has a line with more than %d columns or a space at its end: %q", n.path, helpColumns, line)
			}
		}
		code, out, errs := words(n.path).with("--hlep")
		if code != exitUsage || out != "" || !strings.Contains(errs, "throttled "+n.path+": unknown flag --hlep, did you mean --help?\n") {
			t.Errorf("%s --hlep exits with %d, stdout %q, stderr %q; want 2, and the nearest flag in stderr", n.path, code, out, errs)
		}
		if n.help == "" || strings.HasSuffix(n.help, ".") || (n.bind == nil) == (n.commands == nil) {
			t.Errorf("%s: the help %q is empty or ends in a period, or the command has not exactly one of bind and commands", n.path, n.help)
		}
		checkArgs(t, n)
	}
}

// checkArgs checks that the usage of a command shows each flag, or shows that there are options.
func checkArgs(t *testing.T, n node) {
	t.Helper()
	shown := regexp.MustCompile(`--[a-z-]+`).FindAllString(n.args, -1)
	hidden := false
	n.flags().VisitAll(func(o *flag.Flag) {
		hidden = hidden || !strings.Contains(n.args, "--"+o.Name)
		if o.Usage == "" || strings.HasSuffix(o.Usage, ".") {
			t.Errorf("%s --%s: the help %q is empty or ends in a period", n.path, o.Name, o.Usage)
		}
	})
	for _, name := range shown {
		if name != "--option" && n.flags().Lookup(name[2:]) == nil {
			t.Errorf("%s: the usage shows %s, which is not a flag", n.path, name)
		}
	}
	if strings.Contains(n.args, "[--option value ...]") != hidden {
		t.Errorf("%s: the usage %q must contain [--option value ...] only if it does not show all flags", n.path, n.args)
	}
}

func TestCommandLine(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"version", exitOK, "throttled " + version + "\n", ""},
		{"version now", exitUsage, "", "throttled version: wrong number of arguments: write throttled version\n(throttled version --help shows the usage)\n"},
		{"help nothing", exitUsage, "", `unknown command "nothing": the commands are check, dump, `},
		{"help rules chek", exitUsage, "", `unknown command "chek", did you mean check?`},
		{"help rules check more", exitUsage, "", `unknown command "more"`},
		{"certs --cluster", exitUsage, "", "throttled certs: --cluster needs a value\n"},
		{"certs --days=x", exitUsage, "", `throttled certs: invalid value "x" for --days: it must be an integer`},
		{"health --timeout=5", exitUsage, "", `throttled health: invalid value "5" for --timeout: it must be a duration with a unit, such as 2s`},
		{"certs --renew=x", exitUsage, "", `throttled certs: invalid boolean value "x" for --renew: it must be true or false`},
		{"certs n1 --cluster=c1 -- --dir n2", exitUsage, "", `"--dir"`},
		{"certs n1 --cluster=c1 --dir d", exitOK, "CA d/ca.pem", ""},
		{"certs --cluster c1 --dir=d n2", exitOK, "CA d/ca.pem", ""},
		{"recover --data-dri x", exitUsage, "", "throttled recover: unknown flag --data-dri, did you mean --data-dir?\n"},
		{"recover --data-dir=none", exitError, "", "throttled recover: inspect none: "},
		{"recover", exitUsage, "", "throttled recover: --data-dir is missing"},
		{"completion csh", exitUsage, "", `unknown shell "csh": write bash, zsh or fish`},
		{"chek", exitUsage, "", "no such file or directory\n(throttled --help lists the options; did you mean the command check?)\n"},
		{"ceck --port 1", exitUsage, "", "did you mean the command check?"},
		{"throttled.conf", exitUsage, "", "no such file or directory\n(throttled --help lists the options)\n"},
	} {
		var out, errs bytes.Buffer
		code := run(strings.Fields(tt.args), nil, &out, &errs)
		if code != tt.code || !strings.HasPrefix(out.String(), tt.stdout) || tt.stdout == "" && out.Len() > 0 || !strings.Contains(errs.String(), tt.stderr) || tt.stderr == "" && errs.Len() > 0 {
			t.Errorf("throttled %s exits with %d, stdout %q, stderr %q; want %+v", tt.args, code, &out, &errs, tt)
		}
	}
	if err := os.WriteFile("chek", []byte("prot 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	if code := run([]string{"chek"}, nil, &errs, &errs); code != exitUsage || strings.Contains(errs.String(), "command check") {
		t.Errorf("a configuration file with a name like a command: exit code %d, %q; want 2, and no hint at the command", code, &errs)
	}
}

// TestMan checks the man pages with mandoc and groff, and that they name all options and commands.
func TestMan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if code, _, errs := words("help").with("--man-dir", dir); code != exitOK {
		t.Fatalf("help --man-dir exits with %d: %s", code, errs)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "throttled*.1"))
	if err != nil || len(pages) != len(tree("", commands()))+1 {
		t.Fatalf("help --man-dir has written %d pages (error %v), want one for the program and one for each command", len(pages), err)
	}
	for _, page := range pages {
		lint, _ := exec.Command("mandoc", "-T", "lint", "-W", "warning", page).CombinedOutput() // fails if there are warnings
		for line := range strings.Lines(string(lint)) {
			if !strings.Contains(line, "missing date") { // pages have no date, so that builds are reproducible
				t.Errorf("mandoc: %s", line)
			}
		}
		command := exec.Command("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", page)
		command.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		var out, warnings bytes.Buffer
		command.Stdout, command.Stderr = &out, &warnings
		if err := command.Run(); err != nil || warnings.Len() > 0 {
			t.Errorf("man %s: error %v, %s", page, err, &warnings)
		}
	}
	_, page, _ := words("help").with("--man")
	for _, p := range places() {
		for _, f := range p.flags {
			text := page
			if p.path != "" {
				_, text, _ = words("help").with(append([]string{"--man"}, strings.Fields(p.path)...)...)
			}
			if f.name != "help" && f.name != "version" && !strings.Contains(text, roff("--"+f.name+" "+f.value)) && !strings.Contains(text, roff("--"+f.name)+`\fR`) {
				t.Errorf("the man page of %q does not name --%s", p.path, f.name)
			}
		}
	}
}

func TestRoff(t *testing.T) {
	if got, want := roff(".a\n'b-c\\d\n e"), "\\&.a\n\\&'b\\-c\\ed\n e"; got != want {
		t.Errorf("roff = %q, want %q", got, want)
	}
}

// TestUnknownEnvironment checks that the server reports a misspelled variable without its value, and starts.
func TestUnknownEnvironment(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	log := &lockedBuffer{}
	environ := []string{"THROTTLED_REQUIREPAS=secret", "THROTTLED_PORT=tcp://10.96.0.7:6380", "THROTTLED_SERVICE_HOST=10.96.0.7", "THROTTLED_BIND=127.0.0.1"}
	exited := make(chan int, 1)
	go func() { exited <- serve(ctx, []string{"--port", "0"}, environ, io.Discard, log) }()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for end := time.After(patience); !strings.Contains(log.String(), "msg=ready"); {
		select {
		case <-ticker.C:
		case <-end:
			t.Fatalf("the server is not ready:\n%s", log)
		}
	}
	stop()
	if code := <-exited; code != exitOK {
		t.Errorf("the server exits with %d, want 0:\n%s", code, log)
	}
	text := log.String()
	if strings.Count(text, "has no effect") != 1 || !strings.Contains(text, "name=THROTTLED_REQUIREPAS nearest=THROTTLED_REQUIREPASS") || strings.Contains(text, "secret") {
		t.Errorf("the log is %q; want one warning with the nearest variable, and without the value", text)
	}
}
