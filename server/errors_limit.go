package server

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/throttledhq/throttled/limiter"
	"github.com/throttledhq/throttled/resp"
	"github.com/throttledhq/throttled/window"
)

// The errors of the limiter commands. Each names the invalid argument and the allowed values. The errors of CL.ALL also
// name the limit, by its position (starting at 1) and its key.

// errInvalid returns the error for an invalid argument. The parameter name is the name of the argument in the syntax of
// the command, and the parameter want describes the allowed values.
func errInvalid(name string, arg []byte, want string) replyError {
	return replyError("ERR invalid " + name + " " + quote(arg) + ": must be " + want)
}

// integerIn describes the integers in a range, for errors.
func integerIn(least, most int64) string {
	switch {
	case least == most:
		return fmt.Sprint(least)
	case most == math.MaxInt64:
		return fmt.Sprintf("a 64-bit integer of at least %d", least)
	}
	return fmt.Sprintf("an integer from %d to %d", least, most)
}

func errQuantity(arg []byte) replyError { return errInvalid("quantity", arg, "a 64-bit integer") }

func errQuantityOfAll(arg []byte) replyError {
	return errInvalid("quantity", arg, "a 64-bit integer. It is the first argument of CL.ALL")
}

// errParams returns the error for invalid parameters of a limit. The error names the first parameter that is not an
// integer, or is outside the range of the parameter. If there is none, the error states the condition that the
// combination of parameters violates.
func (f *limitForm) errParams(params [][]byte) replyError {
	last := len(params) - 1
	minimum := f.minFirst
	for i := 1; i < last; i++ {
		if n, ok := resp.ParseSigned(params[i]); !ok || n < minimum {
			return errInvalid(f.names[i], params[i], fmt.Sprintf("a 64-bit integer of at least %d", minimum))
		}
		minimum = 1
	}
	if period, ok := parsePeriod(params[last]); !ok || period.N < 1 {
		return errInvalid(f.names[last], params[last], "a 64-bit integer of at least 1, in seconds or with one of the units "+unitWords())
	}
	return replyError("ERR limit out of range: " + f.conditionText)
}

func unitWords() string {
	words := make([]string, len(timeUnits))
	for i, u := range timeUnits {
		words[i] = u.word
	}
	return enumerate(words, "and")
}

// partsWanted describes the allowed values of the integer that follows a counted mode, such as BUCKETS.
var partsWanted = fmt.Sprintf("an integer from 1 to %d", window.MaxParts)

func (m *limitMode) errParts(arg []byte) replyError {
	return errInvalid("number of "+strings.ToUpper(m.word), arg, partsWanted)
}

func (m *limitMode) errNoParts() replyError {
	return replyError("ERR " + strings.ToUpper(m.word) + " must be followed by " + partsWanted)
}

// errUnexpectedArgument returns the error for an unexpected argument after a complete limit. The parameter modeExpected
// is true if a mode would be allowed in place of the argument.
func (f *limitForm) errUnexpectedArgument(arg []byte, modeExpected bool) replyError {
	switch {
	case spells(arg, "ms"):
		return errUnitPlace
	case modeExpected && beginsWord(arg):
		return replyError("ERR unknown mode " + quote(arg) + ": use " + f.modeWords())
	}
	return replyError("ERR unexpected argument " + quote(arg) + ": the syntax is " + f.usage())
}

// usage returns the syntax of the command as in the documentation.
func (f *limitForm) usage() string {
	return "CL." + strings.ToUpper(f.word) + " " + strings.Join(f.names, " ") + " [quantity] " +
		strings.ReplaceAll(f.modeSyntax(), ":integer", "") + " [MS]"
}

func (f *limitForm) modeWords() string {
	words := make([]string, len(f.modes))
	for i, m := range f.modes {
		words[i] = strings.ToUpper(m.word)
	}
	return enumerate(words, "or")
}

// enumerate joins words with commas, and the last two with the conjunction. There must be at least two words.
func enumerate(words []string, conjunction string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}

// limitAt returns the name of a limit of CL.ALL for errors. The argument is the index of the limit, which starts at 0.
func limitAt(at int) string { return fmt.Sprintf("limit %d of CL.ALL", at+1) }

// errLimitWord returns the error for a word of CL.ALL that must begin a limit, but is not the word of any limit form.
// The parameter at is the index of that limit. If the word may be intended as the mode of the previous limit, the
// parameter before is the form of the previous limit, and otherwise nil.
func errLimitWord(at int, word []byte, before *limitForm) replyError {
	if spells(word, "ms") {
		return errUnitPlace
	}
	text := "ERR " + limitAt(at) + " cannot begin with " + quote(word) + ": use " + enumerate(formWords(), "or")
	if before != nil {
		text += "; the mode of " + limitAt(at-1) + " can be " + before.modeWords()
	}
	return replyError(text)
}

// formWords returns the words of all limit forms, in upper case.
func formWords() []string {
	words := make([]string, len(limitForms))
	for i := range limitForms {
		words[i] = strings.ToUpper(limitForms[i].word)
	}
	return words
}

// leaseTimes describes the validity of a lease that may be requested.
var leaseTimes = fmt.Sprintf("an integer of at least %d; at most %d are granted", limiter.MinHold.Milliseconds(), limiter.MaxHold.Milliseconds())

// errLeaseWord returns the error for a word that does not begin a limit of CL.LEASE.
func errLeaseWord(word []byte) replyError {
	return replyError("ERR the limit of CL.LEASE cannot begin with " + quote(word) + ": use " + enumerate(append(formWords(), strings.ToUpper(rawWord)), "or"))
}

// errLeaseShort returns the error for a limit of CL.LEASE that lacks arguments.
func errLeaseShort(f *limitForm) replyError {
	return replyError(fmt.Sprintf("ERR the limit of CL.LEASE needs %d arguments: the syntax is %s %s", f.size, strings.ToUpper(f.word), strings.Join(f.names, " ")))
}

// errRange returns the error for a raw limit whose integers are valid, and together out of range.
func (r *rawRule) errRange() replyError {
	return replyError(fmt.Sprintf("ERR limit out of range: %s must be at most %d nanoseconds", r.formula, r.period))
}

func errDrawOption(arg []byte) replyError {
	return replyError("ERR unexpected argument " + quote(arg) + ": use LESSEE name and RELAXED, each at most once")
}

func errReturnOption(arg []byte) replyError {
	return replyError("ERR unexpected argument " + quote(arg) + ": use OF units")
}

// errShort returns the error for a limit of CL.ALL that has too few arguments after its first word. The parameter at is
// the index of the limit.
func (f *limitForm) errShort(at int, args [][]byte) replyError {
	key := ""
	if len(args) > 0 {
		key = " (key " + quote(args[0]) + ")"
	}
	return replyError(fmt.Sprintf("ERR %s%s needs %d arguments, but has %d: the syntax is %s %s",
		limitAt(at), key, f.size, len(args), strings.ToUpper(f.word), strings.Join(f.names, " ")))
}

// errOfLimit adds the position and the key of a limit of CL.ALL to err. The parameter at is the index of the limit.
func errOfLimit(at int, key []byte, err error) replyError {
	reply, _ := asReply(err)
	code, text, _ := strings.Cut(string(reply), " ")
	return replyError(fmt.Sprintf("%s %s (key %s): %s", code, limitAt(at), quote(key), text))
}

// cause returns the index of the request whose error is the reason why a call failed. The parameter at is the index of
// the first request that could not be decided. If the error of that request is ErrGroup, the reason is the first error
// after it that is not ErrGroup.
func cause(out []limiter.Decision, at int) int {
	for i := at; i < len(out); i++ {
		if err := out[i].Err; err != nil && !errors.Is(err, limiter.ErrGroup) {
			return i
		}
	}
	return at
}

// callError returns the error of a call of a limiter command if some of its requests could not be decided. The parameter
// at is the index of the request that is the cause.
func callError(reqs []limiter.Request, out []limiter.Decision, at int) error {
	err, key := out[at].Err, reqs[at].Key
	holder, used := wrongKind(err)
	switch {
	case used:
		return errKeyInUse(at, len(out), key, holder)
	case errors.Is(err, limiter.ErrSameKey):
		for i := range reqs[:at] {
			if bytes.Equal(reqs[i].Key, key) {
				return errKeyTwice(i, at, key)
			}
		}
	}
	return err
}

// wrongKind returns the kind of the state that a key holds, if err is a limiter.WrongKindError.
func wrongKind(err error) (holder limiter.Kind, ok bool) {
	if !errors.Is(err, limiter.ErrWrongKind) { // errors.As allocates memory
		return 0, false
	}
	var wrong limiter.WrongKindError
	ok = errors.As(err, &wrong)
	return limiter.Kind(wrong), ok
}

// errKeyInUse returns the error for a request whose key holds the state of a different algorithm, of the kind holder.
// The parameter at is the index of the request, and n is the number of requests in the call.
func errKeyInUse(at, n int, key []byte, holder limiter.Kind) replyError {
	where := ""
	if n > 1 {
		where = limitAt(at) + ": "
	}
	return replyError("WRONGTYPE " + where + "key " + quote(key) + " is in use by " + commandOf(holder) +
		": use another key, or DEL this key to reset its limit")
}

// errKeyTwice returns the error for two limits of CL.ALL with the same key.
func errKeyTwice(first, second int, key []byte) replyError {
	return replyError(fmt.Sprintf("ERR limits %d and %d of CL.ALL have the same key %s: each limit needs a key of its own",
		first+1, second+1, quote(key)))
}

// commandOf returns the command whose keys have the given kind, with its mode if the command has more than one. For the
// kinds that only rules use, it returns "a rule".
func commandOf(kind limiter.Kind) string {
	if kind.OfRules() {
		return "a rule"
	}
	for i := range limitForms {
		for _, m := range limitForms[i].modes {
			if m.kind == kind {
				return strings.TrimSpace("CL." + strings.ToUpper(limitForms[i].word+" "+m.word))
			}
		}
	}
	return kind.String()
}
