package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	// maxValue is the maximum length in bytes of a value that is in a key as a whole.
	maxValue = 128
	// keptValue is the number of bytes of a longer value that are in the key, followed by a hash of the whole value.
	keptValue = 64
	// hashSize is the number of bytes of the hash in a key.
	hashSize = 16
)

// keyPrefix returns the part of a key that all requests of a counter have in common.
func keyPrefix(domain, limit string, algorithm AlgorithmKind, window string) string {
	return fmt.Sprintf("rule|%s|%s|%v|%s", domain, limit, algorithm, window)
}

// AppendKey appends the key of the counter for the counted values of a request, and returns the extended slice:
//
//	rule|DOMAIN|LIMIT|ALGORITHM|WINDOW|ATTRIBUTE=VALUE|...
//
// For example, rule|shop|api|gcra|1m|api_key=acme. The name of the default limit of a domain is empty. The part of a
// value without an attribute is "-". The characters % and | and control characters of a value are written as %XX. A
// value of more than 128 bytes is cut to 64 bytes, followed by %~ and the first 16 bytes of its SHA-256 in hexadecimal,
// so that the length of a key is bounded. Keys are equal only if the domain, the limit, the algorithm, the window and
// all values are equal.
//
// Requests that are counted on their own (see Requests that are counted together in the package comment) have another
// window: 1m@TIER for a tier, 1m#HASH for an override, and 1m#HASH@TIER for a tier of an override. HASH is the start of
// the SHA-256 of the conditions of the override in hexadecimal. The key of a ban begins with rule|DOMAIN|LIMIT|ban|-.
//
// AppendKey allocates nothing if dst has enough capacity.
func (c *Counter) AppendKey(dst []byte, per []Value) []byte {
	dst = append(dst, c.prefix...)
	for i := range per {
		dst = append(dst, '|')
		dst = per[i].appendTo(dst)
	}
	return dst
}

// LimitOf returns the domain and the limit of a key that AppendKey returns, or false for the form of any other key. The
// limit of the default of a domain is empty.
func LimitOf(key []byte) (domain, limit []byte, ok bool) {
	parts := bytes.SplitN(key, []byte{'|'}, 4)
	if len(parts) < 4 || string(parts[0]) != "rule" {
		return nil, nil, false
	}
	return parts[1], parts[2], true
}

// appendTo appends the part of a key for one value.
func (v *Value) appendTo(dst []byte) []byte {
	if v.Attribute == "" {
		return append(dst, '-')
	}
	dst = append(dst, v.Attribute...)
	dst = append(dst, '=')
	if len(v.Value) <= maxValue {
		return appendEscaped(dst, v.Value)
	}
	dst = appendEscaped(dst, v.Value[:keptValue])
	dst = append(dst, "%~"...)
	sum := sha256.Sum256(v.Value)
	return hex.AppendEncode(dst, sum[:hashSize])
}

// appendEscaped appends a text in which the characters with a meaning in keys, and control characters, are escaped.
func appendEscaped(dst, text []byte) []byte {
	const digits = "0123456789ABCDEF"
	start := 0 // of the characters that are not yet appended
	for i, b := range text {
		if escaped[b] {
			dst = append(dst, text[start:i]...)
			dst = append(dst, '%', digits[b>>4], digits[b&15])
			start = i + 1
		}
	}
	return append(dst, text[start:]...)
}

// escaped contains the characters that appendEscaped escapes.
var escaped = func() (set [256]bool) {
	for b := range set {
		set[b] = b == '%' || b == '|' || b < ' ' || b == 0x7f
	}
	return set
}()

// symbols holds the short name of each Unit in keys.
var symbols = [...]string{
	Millisecond: "ms", Second: "s", Minute: "m", Hour: "h", Day: "d", Week: "w", Month: "mo", Year: "y",
}

// windowName returns the name of a period in keys. Periods of the same length have the same name. If days and longer units
// are those of the calendar, this holds only for shorter units: a day of the calendar is not 24 hours, and a week is not
// aligned as 7 days are.
func windowName(p Period, calendar bool) string {
	longest := Week
	if calendar {
		longest = Hour
	}
	if length, fixed := p.Duration(); fixed && (!calendar || p.Unit <= Hour) {
		for u := longest; u >= Millisecond; u-- {
			if unit := units[u].length; length%unit == 0 {
				return fmt.Sprintf("%d%s", length/unit, symbols[u])
			}
		}
	}
	return fmt.Sprintf("%d%s", p.N, symbols[p.Unit])
}

// WindowLength returns the length of the period with the name that replies to CL.CHECK have, such as "15m". A month
// counts as 30 days, and a year as 365. ok is false if the name is not one of a period.
func WindowLength(name string) (length time.Duration, ok bool) {
	digits := len(name) - len(strings.TrimLeft(name, "0123456789"))
	n, err := strconv.ParseInt(name[:digits], 10, 64)
	if err != nil {
		return 0, false
	}
	for u, symbol := range symbols {
		if symbol != "" && name[digits:] == symbol {
			return nominalLength(n, Unit(u))
		}
	}
	return 0, false
}

func nominalLength(n int64, u Unit) (length time.Duration, ok bool) {
	unit := units[u].length
	switch u {
	case Month:
		unit = 30 * units[Day].length
	case Year:
		unit = 365 * units[Day].length
	}
	if n > math.MaxInt64/int64(unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}
