package glob

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of Check.
var (
	errOpen  = errors.New(`a class has no closing bracket: write ] after it, or \[ for the character`)
	errEmpty = errors.New(`a class is empty: write \[ and \] for the characters`)
)

// Check returns an error for a pattern that Match accepts, and that is probably a mistake: it has a class that is not
// closed, that is empty, or that has a range whose first end is above the second.
func Check(pattern string) error {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			width, err := checkClass(pattern[i:])
			if err != nil {
				return err
			}
			i += width - 1
		}
	}
	return nil
}

// checkClass checks the class at the start of pattern, and returns its length.
func checkClass(pattern string) (width int, err error) {
	start := 1
	if strings.HasPrefix(pattern[1:], "^") {
		start++
	}
	i := start
	for i < len(pattern) && pattern[i] != ']' {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i += 2
		case i+2 < len(pattern) && pattern[i+1] == '-':
			if pattern[i] > pattern[i+2] {
				return 0, fmt.Errorf(`the range %q of a class is reversed: write the lower end first, or \- for the character`, pattern[i:i+3])
			}
			i += 3
		default:
			i++
		}
	}
	switch i {
	case len(pattern):
		return 0, errOpen
	case start:
		return 0, errEmpty
	}
	return i + 1, nil
}
