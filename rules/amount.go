package rules

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Amount is the value of the setting "allow" in a rules file: a number of units per period, with an optional burst.
//
// The syntax is COUNT per PERIOD [burst COUNT], or "unlimited", or "none". "/" may replace "per". A period is a unit
// with an optional number in front: "minute", "15m", "2 days". A count is a positive integer that may be grouped by "_"
// or ",", and may end in "k" for thousands or "M" for millions. Numbers have no leading zeros.
type Amount struct {
	Kind  AmountKind
	Count int64  // units per period, at least 1; 0 if Kind is not Rate
	Per   Period // the zero Period if Kind is not Rate
	Burst int64  // units that can be charged at once; 0 if the text has no burst
}

// AmountKind distinguishes rates from the amounts that need no state.
type AmountKind uint8

// The kinds of an Amount.
const (
	Rate      AmountKind = iota // Count units per period
	Unlimited                   // all requests are admitted
	None                        // all requests are refused
)

// Period is a length of time: N units of Unit.
type Period struct {
	N    int64
	Unit Unit
}

// Unit is a unit of time. Months and years have no fixed length, so they are valid for calendar windows only.
type Unit uint8

// The units of a Period.
const (
	Millisecond Unit = iota + 1
	Second
	Minute
	Hour
	Day
	Week
	Month
	Year
)

// units describes each Unit: its length, or 0 if the length varies, and its spellings. The first spelling is the one
// that String returns.
var units = [...]struct {
	length time.Duration
	names  []string
}{
	Millisecond: {time.Millisecond, []string{"millisecond", "milliseconds", "ms"}},
	Second:      {time.Second, []string{"second", "seconds", "sec", "secs", "s"}},
	Minute:      {time.Minute, []string{"minute", "minutes", "min", "mins", "m"}},
	Hour:        {time.Hour, []string{"hour", "hours", "hr", "hrs", "h"}},
	Day:         {24 * time.Hour, []string{"day", "days", "d"}},
	Week:        {7 * 24 * time.Hour, []string{"week", "weeks", "w"}},
	Month:       {0, []string{"month", "months"}},
	Year:        {0, []string{"year", "years"}},
}

// unitsByName maps each spelling to its Unit.
var unitsByName = func() map[string]Unit {
	m := map[string]Unit{}
	for u := range units {
		for _, name := range units[u].names {
			m[name] = Unit(u)
		}
	}
	return m
}()

// String returns the name of the unit in the singular.
func (u Unit) String() string { return units[u].names[0] }

// Duration returns the length of the period. ok is false if the length varies (months and years) or does not fit a
// Duration.
func (p Period) Duration() (d time.Duration, ok bool) {
	length := units[p.Unit].length
	if length == 0 || p.N > math.MaxInt64/int64(length) {
		return 0, false
	}
	return time.Duration(p.N) * length, true
}

// String returns the period in the syntax of an Amount.
func (p Period) String() string {
	if p.N == 1 {
		return p.Unit.String()
	}
	return fmt.Sprintf("%d %ss", p.N, p.Unit)
}

// String returns the amount in its syntax. Parsing the result with ParseAmount returns an equal Amount.
func (a Amount) String() string {
	switch {
	case a.Kind == Unlimited:
		return "unlimited"
	case a.Kind == None:
		return "none"
	case a.Burst == 0:
		return fmt.Sprintf("%d per %v", a.Count, a.Per)
	}
	return fmt.Sprintf("%d per %v burst %d", a.Count, a.Per, a.Burst)
}

// atOnce returns the number of units of a rate that can be charged at once.
func (a Amount) atOnce() int64 {
	if a.Burst > 0 {
		return a.Burst
	}
	return a.Count
}

// Errors of ParseAmount, without the text that is wrong.
var (
	errNoPeriod  = errors.New(`no period: write "100 per minute", "unlimited" or "none"`)
	errCount     = errors.New("a count must be an integer from 1 to 9223372036854775807")
	errZero      = errors.New(`a count must be at least 1: to refuse all requests, write "none"`)
	errFraction  = errors.New(`a count must be an integer: write a longer period, such as "3 per 2s" for 1.5 per second`)
	errGroups    = errors.New("digits must be grouped by threes, with the same separator: 100,000 or 100_000")
	errZeros     = errors.New("write a number without leading zeros")
	errPeriod    = errors.New("the number of a period must be an integer of at least 1")
	errNoUnit    = errors.New(`a period needs a unit, such as "15m" or "15 minutes"`)
	errCapitalM  = errors.New(`write "m" or "minute", or "month": M is a million in counts`)
	errUnit      = errors.New("the units are ms, second, minute, hour, day, week, month and year")
	errBurst     = errors.New(`"burst" must be followed by a count`)
	errExtraWord = errors.New(`an amount is COUNT per PERIOD [burst COUNT]`)
)

// amountError is an error in a part of an amount.
type amountError struct {
	word string
	err  error
}

func (e *amountError) Error() string { return fmt.Sprintf("%q: %v", clip(e.word), e.err) }

func (e *amountError) Unwrap() error { return e.err }

// ParseAmount parses the text of an Amount. Upper and lower case are equal, except that the suffix M for millions must be
// upper case, and the unit m for minutes lower case. The error names the wrong word and the remedy.
func ParseAmount(text string) (Amount, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "unlimited":
		return Amount{Kind: Unlimited}, nil
	case "none":
		return Amount{Kind: None}, nil
	}
	count, rest, ok := cutPer(text)
	if !ok {
		return Amount{}, &amountError{strings.TrimSpace(text), errNoPeriod}
	}
	var a Amount
	var err error
	if a.Count, err = parseCount(count); err != nil {
		return Amount{}, err
	}
	words := strings.Fields(rest)
	if a.Per, words, err = parsePeriod(words); err != nil {
		return Amount{}, err
	}
	if a.Burst, err = parseBurst(words); err != nil {
		return Amount{}, err
	}
	return a, nil
}

// cutPer splits an amount around "/" or the word "per".
func cutPer(text string) (count, rest string, ok bool) {
	if count, rest, ok = strings.Cut(text, "/"); ok {
		return strings.TrimSpace(count), rest, true
	}
	words := strings.Fields(text)
	for i, word := range words {
		if strings.EqualFold(word, "per") {
			return strings.Join(words[:i], " "), strings.Join(words[i+1:], " "), true
		}
	}
	return "", "", false
}

// parsePeriod parses the period at the start of words, and returns the words after it.
func parsePeriod(words []string) (Period, []string, error) {
	if len(words) == 0 {
		return Period{}, nil, &amountError{"per", errNoPeriod}
	}
	number, unit := splitNumber(words[0])
	used := 1
	if unit == "" && len(words) > 1 { // "15 minutes"
		unit, used = words[1], 2
	}
	p := Period{N: 1, Unit: unitsByName[strings.ToLower(unit)]}
	switch {
	case unit == "":
		return p, nil, &amountError{number, errNoUnit}
	case unit == "M":
		return p, nil, &amountError{unit, errCapitalM}
	case p.Unit == 0:
		return p, nil, &amountError{unit, errUnit}
	}
	if number != "" {
		n, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil, n < 1, number[0] == '+':
			return p, nil, &amountError{number, errPeriod}
		case number[0] == '0':
			return p, nil, &amountError{number, errZeros}
		}
		p.N = n
	}
	return p, words[used:], nil
}

// splitNumber splits a word after its leading characters of a number, such as "15m" into "15" and "m".
func splitNumber(word string) (number, rest string) {
	i := strings.IndexFunc(word, func(r rune) bool { return !strings.ContainsRune("0123456789.,_+-", r) })
	if i < 0 {
		return word, ""
	}
	return word[:i], word[i:]
}

// parseBurst parses the words after the period.
func parseBurst(words []string) (int64, error) {
	switch {
	case len(words) == 0:
		return 0, nil
	case !strings.EqualFold(words[0], "burst"):
		return 0, &amountError{words[0], errExtraWord}
	case len(words) == 1:
		return 0, &amountError{words[0], errBurst}
	case len(words) > 2:
		return 0, &amountError{words[2], errExtraWord}
	}
	return parseCount(words[1])
}

// parseCount parses a count with optional separators and an optional suffix.
func parseCount(text string) (int64, error) {
	digits, factor := text, int64(1)
	switch {
	case strings.HasSuffix(text, "k"), strings.HasSuffix(text, "K"):
		digits, factor = text[:len(text)-1], 1_000
	case strings.HasSuffix(text, "M"):
		digits, factor = text[:len(text)-1], 1_000_000
	}
	digits, err := ungroup(digits)
	if err != nil {
		return 0, &amountError{text, err}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case strings.Contains(digits, "."):
		return 0, &amountError{text, errFraction}
	case err == nil && len(digits) > 1 && digits[0] == '0':
		return 0, &amountError{text, errZeros}
	case err == nil && n == 0:
		return 0, &amountError{text, errZero}
	case err != nil, n < 0, digits[0] == '+', n > math.MaxInt64/factor:
		return 0, &amountError{text, errCount}
	}
	return n * factor, nil
}

// ungroup removes the separators of groups of three digits.
func ungroup(digits string) (string, error) {
	i := strings.IndexAny(digits, ",_")
	if i < 0 {
		return digits, nil
	}
	groups := strings.Split(digits, digits[i:i+1])
	for _, group := range groups[1:] {
		if len(group) != 3 {
			return "", errGroups
		}
	}
	joined := strings.Join(groups, "")
	if len(groups[0]) < 1 || len(groups[0]) > 3 || strings.ContainsAny(joined, ",_") {
		return "", errGroups
	}
	return joined, nil
}
