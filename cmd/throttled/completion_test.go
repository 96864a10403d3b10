package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completionCases are command lines, of which the last word is completed, and the words that complete it. A word in want
// with the prefix ! must not be among them.
var completionCases = []struct {
	line string
	want string
}{
	{"throttled ", "check dump certs recover rules health import help completion version"},
	{"throttled che", "check !dump"},
	{"throttled th", "throttled.conf"},
	{"throttled rules ", "check explain test import schema !dump"},
	{"throttled rules ex", "explain !check"},
	{"throttled --po", "--port !--bind"},
	{"throttled --protected-mode ", "yes no !check"},
	{"throttled --logfile th", "throttled.conf"},
	{"throttled --port ", "!check !throttled.conf"},
	{"throttled certs --d", "--days --dir !--cluster"},
	{"throttled certs --dir s", "sub/ !sub.thr"},
	{"throttled check s", "sub/ sub.thr"},
	{"throttled rules explain --", "--at --help !--merge"},
	{"throttled rules import --from check --", "--merge !--at"},
	{"throttled completion ", "bash zsh fish !check"},
	{"throttled help ru", "rules"},
	{"throttled version ", "!check"},
}

// equalsCases are completed in bash and zsh, which divide --name=value into words.
var equalsCases = []struct{ line, want string }{
	{"throttled --protected-mode=", "yes no"},
	{"throttled --protected-mode=y", "yes !no"},
	{"throttled certs --dir=s", "sub/ !sub.thr"},
}

// completionDir returns a directory with two files and a directory, and the script of a shell.
func completionDir(t *testing.T, shell string) (dir, script string) {
	t.Helper()
	dir = t.TempDir()
	_, text, _ := words("completion").with(shell)
	script = filepath.Join(t.TempDir(), "completion")
	for _, name := range []string{filepath.Join(dir, "throttled.conf"), filepath.Join(dir, "sub.thr"), script} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir, script
}

// complete runs a program in a shell, which completes a line, and checks the completions.
func complete(t *testing.T, dir, line, want, shell string, args ...string) {
	t.Helper()
	command := exec.Command(shell, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%s: completion of %q: %v\n%s", shell, line, err, out)
		return
	}
	var got []string
	for completed := range strings.Lines(string(out)) {
		word, _, _ := strings.Cut(strings.TrimSuffix(completed, "\n"), "\t")
		got = append(got, word)
	}
	for _, word := range strings.Fields(want) {
		name, absent := strings.CutPrefix(word, "!")
		if slices.Contains(got, name) == absent {
			t.Errorf("%s: the completions of %q are %q; want %s", shell, line, got, want)
		}
	}
}

// bashWords returns the words of a line as bash divides them: = is a word of its own.
func bashWords(line string) []string {
	return strings.Split(strings.ReplaceAll(line, "=", " = "), " ")
}

func TestCompletion_Bash(t *testing.T) {
	dir, script := completionDir(t, "bash")
	const program = `source "$1"; shift
[[ $(complete -p throttled) == *_throttled* ]] || exit 1
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _throttled throttled
for word in "${COMPREPLY[@]}"; do if [[ -d $word ]]; then word+=/; fi; echo "$word"; done`
	for _, c := range append(slices.Clone(equalsCases), completionCases...) {
		words := bashWords(c.line)
		if n := len(words); n > 1 && words[n-1] == "" && words[n-2] == "=" {
			words = words[:n-1] // the cursor is at the =
		}
		complete(t, dir, c.line, c.want, "bash", append([]string{"-u", "-c", program, "bash", script}, words...)...)
	}
}

// TestCompletion_Zsh runs the script with functions in place of those of the completion system, which print their words.
func TestCompletion_Zsh(t *testing.T) {
	dir, script := completionDir(t, "zsh")
	const program = `compdef() { :; }
offer() { local w; for w; do [[ $w == $prefix* ]] && print -r -- $w; done; return 0; }
compadd() { shift; offer "$@"; }
_describe() { local name=${@[-1]}; offer "${${(@P)name}[@]%%:*}"; }
_files() { local -a dirs=(*(/N)) plain=(*(.N)); offer ${^dirs}/; [[ $1 == -/ ]] || offer $plain; }
compset() { prefix=${prefix#*=}; }
source $1; shift
words=("$@") CURRENT=$# prefix=${@[-1]}
_throttled; true`
	for _, c := range append(slices.Clone(equalsCases), completionCases...) {
		complete(t, dir, c.line, c.want, "zsh", append([]string{"-f", "-c", program, "zsh", script}, strings.Split(c.line, " ")...)...)
	}
}

func TestCompletion_Fish(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // fish creates files in it
	dir, script := completionDir(t, "fish")
	for _, c := range completionCases {
		complete(t, dir, c.line, c.want, "fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", script, c.line)
	}
}
