package options

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// value formats and parses one field of an Options. Setting a field to its own text, as in Set(String()), changes
// nothing.
type value interface {
	// Set parses text into the field. The text of an error is the reason that Redis reports for a failed CONFIG SET.
	// After an error the field may be invalid.
	Set(text string) error
	// String returns the value as CONFIG GET returns it.
	String() string
	// want describes the values that Set accepts, as a phrase after "must be".
	want() string
}

var (
	errInteger = errors.New("argument couldn't be parsed into an integer")
	errMemory  = errors.New("argument must be a memory value")
	errYesNo   = errors.New("argument must be 'yes' or 'no'")
)

// within parses an integer from lo to hi as strictly as Redis: without a plus sign or leading zeros.
func within(text string, lo, hi int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		return 0, errInteger
	}
	return n, checkRange(n, lo, hi)
}

func checkRange(n, lo, hi int64) error {
	if n < lo || n > hi {
		return fmt.Errorf("argument must be between %d and %d inclusive", lo, hi)
	}
	return nil
}

// number is an integer in a range.
type number struct {
	p      *int
	lo, hi int64
}

func (v number) String() string { return strconv.Itoa(*v.p) }
func (v number) want() string   { return fmt.Sprintf("between %d and %d", v.lo, v.hi) }

func (v number) Set(text string) error {
	n, err := within(text, v.lo, v.hi)
	if err == nil {
		*v.p = int(n)
	}
	return err
}

// span is a duration as a whole number of units.
type span struct {
	p      *time.Duration
	unit   time.Duration
	lo, hi int64
}

func (v span) String() string { return strconv.FormatInt(int64(*v.p/v.unit), 10) }

func (v span) want() string {
	names := map[time.Duration]string{
		time.Second: "seconds", time.Millisecond: "milliseconds", time.Microsecond: "microseconds",
	}
	return fmt.Sprintf("between %d and %d %s", v.lo, v.hi, names[v.unit])
}

func (v span) Set(text string) error {
	n, err := within(text, v.lo, v.hi)
	if err == nil {
		*v.p = time.Duration(n) * v.unit
	}
	return err
}

// size is a number of bytes.
type size struct {
	p      *int64
	lo, hi int64
}

func (v size) String() string { return strconv.FormatInt(*v.p, 10) }

func (v size) want() string {
	return fmt.Sprintf("between %d and %d bytes, with or without a unit (k, kb, m, mb, g, gb)", v.lo, v.hi)
}

func (v size) Set(text string) error {
	n, err := parseSize(text)
	if err == nil {
		err = checkRange(n, v.lo, v.hi)
	}
	if err == nil {
		*v.p = n
	}
	return err
}

// parseSize parses digits and an optional unit. The units k, m and g are decimal; kb, mb
// and gb are binary.
func parseSize(text string) (int64, error) {
	digits := strings.TrimRight(text, "bgkmBGKM")
	units := map[string]int64{
		"": 1, "b": 1, "k": 1000, "kb": kib, "m": 1000 * 1000, "mb": mib, "g": 1000 * 1000 * 1000, "gb": gib,
	}
	unit, known := units[strings.ToLower(text[len(digits):])]
	n, err := strconv.ParseUint(digits, 10, 63)
	if !known || err != nil || n > math.MaxInt64/uint64(unit) {
		return 0, errMemory
	}
	return int64(n) * unit, nil
}

// sizeOrPercent is a number of bytes, or a percentage, which is stored as a negative number.
type sizeOrPercent struct{ p *int64 }

var (
	errShare   = errors.New("argument must be a memory or percent value")
	errPercent = errors.New("percentage argument must be less or equal to 100")
)

func (v sizeOrPercent) String() string {
	if *v.p < 0 {
		return strconv.FormatInt(-*v.p, 10) + "%"
	}
	return strconv.FormatInt(*v.p, 10)
}

func (v sizeOrPercent) want() string {
	return "bytes, with or without a unit (k, kb, m, mb, g, gb), or a percentage from 0% to 100%"
}

func (v sizeOrPercent) Set(text string) error {
	digits, percent := strings.CutSuffix(text, "%")
	if !percent {
		n, err := parseSize(text)
		if err != nil {
			return errShare
		}
		*v.p = n
		return nil
	}
	n, err := within(digits, 0, math.MaxInt64)
	switch {
	case err != nil:
		return errShare
	case n > 100:
		return errPercent
	}
	*v.p = -n
	return nil
}

// boolean is yes or no.
type boolean struct{ p *bool }

func (v boolean) want() string { return "yes or no" }

func (v boolean) String() string {
	if *v.p {
		return "yes"
	}
	return "no"
}

func (v boolean) Set(text string) error {
	switch strings.ToLower(text) {
	case "yes":
		*v.p = true
	case "no":
		*v.p = false
	default:
		return errYesNo
	}
	return nil
}

// enum is one of the strings in names, ignoring case.
type enum struct {
	p     *string
	names []string
}

func (v enum) String() string { return *v.p }

func (v enum) want() string {
	if len(v.names) == 1 {
		return v.names[0]
	}
	return "one of " + strings.Join(v.names, ", ")
}

func (v enum) Set(text string) error {
	for _, name := range v.names {
		if strings.EqualFold(name, text) {
			*v.p = name
			return nil
		}
	}
	return errors.New("argument(s) must be one of the following: " + strings.Join(v.names, ", "))
}

// text is an arbitrary string.
type text struct{ p *string }

func (v text) String() string { return *v.p }
func (v text) want() string   { return "any text" }

func (v text) Set(s string) error {
	*v.p = s
	return nil
}

// directory is a path that is not empty and has no zero byte.
type directory struct{ p *string }

func (v directory) String() string { return *v.p }
func (v directory) want() string   { return "the path of a directory" }

func (v directory) Set(s string) error {
	if s == "" || strings.ContainsRune(s, 0) {
		return errors.New("argument must be the path of a directory")
	}
	*v.p = s
	return nil
}

// filename is the name of a file without a path.
type filename struct{ p *string }

func (v filename) String() string { return *v.p }
func (v filename) want() string   { return "a filename, not a path" }

func (v filename) Set(s string) error {
	if s == "" || s == "." || s == ".." || strings.ContainsAny(s, "/\\\x00") {
		return errors.New("argument can't be a path, just a filename")
	}
	*v.p = s
	return nil
}

// addresses is a list of addresses to listen on, separated by white space.
type addresses struct{ p *[]string }

func (v addresses) String() string { return strings.Join(*v.p, " ") }

func (v addresses) want() string {
	return "IP addresses or host names, separated by spaces, or * for all interfaces"
}

func (v addresses) Set(s string) error {
	words := strings.Fields(s)
	if len(words) == 0 {
		return errors.New("argument must be at least one address")
	}
	for _, word := range words {
		if !isAddress(word) {
			return fmt.Errorf("argument must be addresses, not %s", quote(word))
		}
	}
	*v.p = words
	return nil
}

// isAddress reports whether word is "*", an IP address or a valid host name. It does not
// resolve names.
func isAddress(word string) bool {
	if word == "*" {
		return true
	}
	if _, err := netip.ParseAddr(word); err == nil {
		return true
	}
	for i := range len(word) {
		c := word[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		digit := '0' <= c && c <= '9'
		if !letter && !digit && (i == 0 || c != '.' && c != '-' && c != '_') {
			return false
		}
	}
	// A word whose last label is a number is an invalid IP address, not a host name.
	last := word[strings.LastIndexByte(word, '.')+1:]
	_, err := strconv.ParseUint(last, 10, 64)
	return err != nil
}

// singleValue wraps the value of an option that has only one valid value. The field legal contains this value as text.
type singleValue struct {
	value
	legal string
	why   string
}

func (v singleValue) want() string {
	return fmt.Sprintf("%s: %s", quote(v.legal), v.why)
}

func (v singleValue) Set(s string) error {
	if err := v.value.Set(s); err != nil {
		return err
	}
	if v.String() != v.legal {
		return errors.New(v.why)
	}
	return nil
}

// withReason wraps a value and adds a reason to its errors.
type withReason struct {
	value
	why string
}

func (v withReason) want() string { return v.value.want() + " (" + v.why + ")" }

func (v withReason) Set(s string) error {
	if err := v.value.Set(s); err != nil {
		return fmt.Errorf("%w (%s)", err, v.why)
	}
	return nil
}

// savePoints is a list of pairs of seconds and changes.
type savePoints struct{ p *[]SavePoint }

var errSave = errors.New("Invalid save parameters")

func (v savePoints) want() string {
	return `pairs of seconds (from 1) and changes (from 0), or ""`
}

func (v savePoints) String() string {
	words := make([]string, 0, 2*len(*v.p))
	for _, point := range *v.p {
		words = append(words, strconv.FormatInt(int64(point.After/time.Second), 10), strconv.FormatInt(point.Changes, 10))
	}
	return strings.Join(words, " ")
}

func (v savePoints) Set(s string) error {
	words := strings.Fields(s)
	if len(words)%2 != 0 {
		return errSave
	}
	var points []SavePoint
	for ; len(words) > 0; words = words[2:] {
		seconds, err1 := strconv.ParseInt(words[0], 10, 32)
		changes, err2 := strconv.ParseInt(words[1], 10, 32)
		if err1 != nil || err2 != nil || seconds < 1 || changes < 0 {
			return errSave
		}
		points = append(points, SavePoint{time.Duration(seconds) * time.Second, changes})
	}
	*v.p = points
	return nil
}
