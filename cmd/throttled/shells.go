package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shellCases are the parts in which the scripts of bash and zsh differ: the statements that complete a word.
type shellCases struct {
	files, dirs string
	words       string // format with the words
	commands    func(p place) string
	flags       func(p place) string
}

// valueCases returns the cases of a statement that completes the value of a flag, by the path and the flag.
func (s shellCases) valueCases(all []place) string {
	var b strings.Builder
	for _, c := range []struct {
		kind      completes
		statement string
	}{{fileNames, s.files}, {dirNames, s.dirs}, {fixedWords, s.words}, {nothing, ":"}} {
		patterns := valuePatterns(all, c.kind)
		for _, list := range slices.Sorted(maps.Keys(patterns)) {
			statement := c.statement
			if c.kind == fixedWords {
				statement = fmt.Sprintf(statement, list)
			}
			fmt.Fprintf(&b, "\t%s) %s; return ;;\n", strings.Join(patterns[list], "|"), statement)
		}
	}
	return b.String()
}

// placeCases returns the cases of a statement that completes a flag or an operand, by the path.
func (s shellCases) placeCases(all []place) string {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "\t%q)\n\t\tif [[ $cur == -* ]]; then %s; return; fi\n", p.path, s.flags(p))
		if p.commands != nil {
			fmt.Fprintf(&b, "\t\t%s\n", s.commands(p))
		}
		switch kind, list := completion(p.operands); kind {
		case fileNames:
			fmt.Fprintf(&b, "\t\t%s\n", s.files)
		case dirNames:
			fmt.Fprintf(&b, "\t\t%s\n", s.dirs)
		case fixedWords:
			fmt.Fprintf(&b, "\t\t%s\n", fmt.Sprintf(s.words, strings.Join(list, " ")))
		}
		b.WriteString("\t\t;;\n")
	}
	return b.String()
}

// bashCompletion returns the script of bash. In bash, = is a word of its own.
func bashCompletion(all []place) string {
	s := shellCases{
		files: "_throttled_files -f", dirs: "_throttled_files -d", words: `_throttled_words "%s"`,
		commands: func(p place) string {
			return fmt.Sprintf("_throttled_words %q", strings.Join(commandNames(p.commands), " "))
		},
		flags: func(p place) string { return fmt.Sprintf("_throttled_words %q", p.flagNames()) },
	}
	return `# Completes the command lines of throttled in bash.
_throttled_words() {
	COMPREPLY+=($(compgen -W "$1" -- "$cur"))
}
_throttled_files() {
	local IFS=$'\n'
	COMPREPLY+=($(compgen "$1" -- "$cur"))
	compopt -o filenames 2>/dev/null
}
_throttled() {
	local cur=${COMP_WORDS[COMP_CWORD]} before=$((COMP_CWORD - 1)) path= i
	COMPREPLY=()
	if [[ $cur == = ]]; then
		cur=
	elif [[ ${COMP_WORDS[before]} == = ]]; then
		before=$((before - 1))
	fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "${path:+$path }${COMP_WORDS[i]}" in
		` + commandPatterns(all) + `) path="${path:+$path }${COMP_WORDS[i]}" ;;
		*) break ;;
		esac
	done
	case "$path ${COMP_WORDS[before]}" in
` + s.valueCases(all) + `	esac
	case $path in
` + s.placeCases(all) + `	esac
}
complete -F _throttled throttled
`
}

// zshCompletion returns the script of zsh. It completes --name value and --name=value.
func zshCompletion(all []place) string {
	s := shellCases{
		files: "_files", dirs: "_files -/", words: "compadd -- %s",
		commands: func(p place) string {
			var list []string
			for _, c := range p.commands {
				list = append(list, shellQuote(c.name+":"+c.help))
			}
			return fmt.Sprintf("list=(%s); _describe command list", strings.Join(list, " "))
		},
		flags: func(p place) string {
			var list []string
			for _, f := range p.flags {
				list = append(list, shellQuote("--"+f.name+":"+f.help))
			}
			return fmt.Sprintf("list=(%s); _describe -o option list", strings.Join(list, " "))
		},
	}
	return `#compdef throttled
# Completes the command lines of throttled in zsh.
_throttled() {
	local cur=${words[CURRENT]} before=${words[CURRENT-1]} place= i
	local -a list
	if [[ $cur == --*=* ]]; then
		before=${cur%%=*}
		compset -P '*='
	fi
	for ((i = 2; i < CURRENT; i++)); do
		case "${place:+$place }${words[i]}" in
		` + commandPatterns(all) + `) place="${place:+$place }${words[i]}" ;;
		*) break ;;
		esac
	done
	case "$place $before" in
` + s.valueCases(all) + `	esac
	case $place in
` + s.placeCases(all) + `	esac
}
compdef _throttled throttled
`
}

// fishCompletion returns the script of fish.
func fishCompletion(all []place) string {
	var b strings.Builder
	b.WriteString(`# Completes the command lines of throttled in fish.
function __throttled_at
	set -l place ''
	for word in (commandline -opc)[2..]
		switch (string trim -- "$place $word")
			case ` + strings.ReplaceAll(strings.ReplaceAll(commandPatterns(all), "|", " "), `"`, "'") + `
				set place (string trim -- "$place $word")
			case '*'
				break
		end
	end
	test "$place" = "$argv[1]"
end
complete -c throttled -f
`)
	for _, p := range all {
		at := "complete -c throttled -n " + shellQuote(`__throttled_at "`+p.path+`"`)
		for _, c := range p.commands {
			fmt.Fprintf(&b, "%s -a %s -d %s\n", at, c.name, shellQuote(c.help))
		}
		switch kind, list := completion(p.operands); kind {
		case fileNames:
			fmt.Fprintf(&b, "%s -F\n", at)
		case dirNames:
			fmt.Fprintf(&b, "%s -a '(__fish_complete_directories)'\n", at)
		case fixedWords:
			fmt.Fprintf(&b, "%s -a %s\n", at, shellQuote(strings.Join(list, " ")))
		}
		for _, f := range p.flags {
			fmt.Fprintf(&b, "%s -l %s%s -d %s\n", at, f.name, fishValue(f.value), shellQuote(f.help))
		}
	}
	return b.String()
}

// fishValue returns the arguments of the command complete for a flag with the given placeholder.
func fishValue(placeholder string) string {
	switch kind, list := completion(placeholder); {
	case placeholder == "":
		return ""
	case kind == fileNames:
		return " -r -F"
	case kind == dirNames:
		return " -x -a '(__fish_complete_directories)'"
	case kind == fixedWords:
		return " -x -a " + shellQuote(strings.Join(list, " "))
	}
	return " -x"
}

// shellQuote returns a word in single quotes, as bash and zsh read them. fish reads them alike if the word has no
// backslash and no single quote.
func shellQuote(word string) string {
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
