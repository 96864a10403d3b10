package main

import (
	"flag"
	"fmt"
	"strings"

	"github.com/throttledhq/throttled/options"
)

// manName returns the name of the man page of a command, without its section.
func manName(path string) string {
	return strings.ReplaceAll(strings.TrimSpace("throttled "+path), " ", "-")
}

// roff escapes a text for man pages.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// manPage returns the man page of a command, or of the program if n has no command.
func manPage(n node) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"throttled %s\" \"User Commands\"\n", strings.ToUpper(roff(manName(n.path))), roff(version))
	if n.command == nil {
		manProgram(&b)
	} else {
		manCommand(&b, n)
	}
	manSection(&b, "EXIT STATUS")
	manItem(&b, "0", "success")
	manItem(&b, "1", "an error")
	manItem(&b, "2", "a wrong argument or a wrong setting")
	if n.command == nil {
		manItem(&b, "75", "the node of a cluster cannot continue safely, and may be restarted")
	}
	manSeeAlso(&b, n)
	return b.String()
}

func manSection(b *strings.Builder, title string) { fmt.Fprintf(b, ".SH %s\n", title) }

// manItem writes an item with a text, such as an option.
func manItem(b *strings.Builder, name, text string) {
	fmt.Fprintf(b, ".TP\n\\fB%s\\fR\n%s\n", roff(name), roff(text))
}

// manText writes the paragraphs of a text below the title of a section. Lines that begin with spaces are not filled.
func manText(b *strings.Builder, text string) {
	for i, paragraph := range strings.Split(strings.TrimRight(text, "\n"), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(paragraph, " ") {
			lines := strings.TrimSpace(strings.ReplaceAll(paragraph, "\n    ", "\n"))
			fmt.Fprintf(b, ".RS 4\n.nf\n%s\n.fi\n.RE\n", roff(lines))
			continue
		}
		fmt.Fprintf(b, "%s\n", roff(paragraph))
	}
}

// manAbout is the first paragraph of the description of the program.
const manAbout = `The server decides whether requests are within their limits, and charges them. Clients use the Redis
protocol, HTTP or gRPC. FILE is a configuration file like redis.conf: lines of "option value", #
begins a comment. --config FILE is the same as FILE. The documentation is in docs/ of the source.`

// manProgram writes the page of the program up to its commands.
func manProgram(b *strings.Builder) {
	manSection(b, "NAME")
	b.WriteString("throttled \\- rate\\-limit server that speaks the Redis protocol\n")
	manSection(b, "SYNOPSIS")
	fmt.Fprintf(b, "%s\n.br\n%s\n", roff("throttled [FILE] [--option value ...]"), roff("throttled COMMAND ..."))
	manSection(b, "DESCRIPTION")
	manText(b, manAbout+"\n\n"+options.Sources)
	manSection(b, "OPTIONS")
	group := ""
	for _, o := range options.List() {
		if o.Group != group {
			group = o.Group
			fmt.Fprintf(b, ".SS %s\n", roff(group))
		}
		text := fmt.Sprintf("%s (default: %s)", o.Help, o.Default)
		if o.Fixed {
			text += "; applied at the start only"
		}
		manItem(b, "--"+o.Name+" "+o.Form, text)
	}
	manSection(b, "COMMANDS")
	for _, n := range tree("", commands()) {
		manItem(b, "throttled "+n.path, n.help)
	}
}

// manCommand writes the page of a command up to its options or subcommands.
func manCommand(b *strings.Builder, n node) {
	manSection(b, "NAME")
	fmt.Fprintf(b, "%s \\- %s\n", roff(manName(n.path)), roff(n.help))
	manSection(b, "SYNOPSIS")
	fmt.Fprintf(b, "%s\n", roff(n.usage()))
	if n.text != "" {
		manSection(b, "DESCRIPTION")
		manText(b, n.text)
	}
	manSection(b, "OPTIONS")
	n.flags().VisitAll(func(o *flag.Flag) {
		value, help := flag.UnquoteUsage(o)
		if d := shownDefault(o); d != "" {
			help += " (default: " + d + ")"
		}
		manItem(b, strings.TrimSpace("--"+o.Name+" "+value), help)
	})
	manItem(b, "-h, --help", "print the help text")
	if n.commands != nil {
		manSection(b, "COMMANDS")
		for _, below := range tree(n.path, n.commands) {
			manItem(b, "throttled "+below.path, below.help)
		}
	}
}

// manSeeAlso writes the pages of the other commands.
func manSeeAlso(b *strings.Builder, n node) {
	manSection(b, "SEE ALSO")
	var pages []string
	for _, other := range append([]node{{}}, tree("", commands())...) {
		if other.path != n.path {
			pages = append(pages, fmt.Sprintf("\\fB%s\\fR(1)", roff(manName(other.path))))
		}
	}
	b.WriteString(strings.Join(pages, ",\n") + "\n")
}
