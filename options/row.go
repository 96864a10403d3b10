package options

import "strings"

// row declares one option.
type row struct {
	name   string
	group  string
	form   string
	help   string // text of the help line; a phrase without a period
	change change
	secret bool // not shown by CONFIG GET or in errors

	// accumulates is true if the values of several lines or flags are joined to one value. An
	// empty value discards the previous values.
	accumulates bool

	field func(o *Options) value // returns the option's field in o
}

// find returns the row of the option called name, ignoring case, or nil if there is none.
func find(name string) *row {
	for i := range table {
		if strings.EqualFold(table[i].name, name) {
			return &table[i]
		}
	}
	return nil
}

// many reports whether the option accepts several words.
func (r *row) many() bool { return strings.HasSuffix(r.form, "...") }

// joined returns the value of the option after a source sets it to text. The argument
// before is the value that earlier lines or flags of the same source have set. The result
// is text alone if the option does not accumulate, or if before or text is empty.
func (r *row) joined(before, text string) string {
	if !r.accumulates || before == "" || text == "" {
		return text
	}
	return before + " " + text
}

// get returns the option's value in o as text.
func (r *row) get(o *Options) string { return r.field(o).String() }

// public returns the option's value in o as text, or "" if the option is secret.
func (r *row) public(o *Options) string {
	if r.secret {
		return ""
	}
	return r.get(o)
}
