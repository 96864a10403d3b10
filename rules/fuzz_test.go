package rules

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse checks that no text makes Parse panic, that the places of errors are in the file, and that an accepted file
// has the same meaning when it is parsed again.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/valid/*.yaml", "testdata/malformed/*.yaml"} {
		for _, text := range readAll(f, pattern) {
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("fuzz.yaml", text, loadZone)
		again, errAgain := Parse("fuzz.yaml", text, loadZone)
		if !reflect.DeepEqual(file, again) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Errorf("two calls of Parse differ: %+v, %v and %+v, %v", file, err, again, errAgain)
		}
		if err != nil {
			checkErrors(t, string(text), err)
			return
		}
		checkFile(t, file)
	})
}

// checkErrors checks the errors of a refused file.
func checkErrors(t *testing.T, text string, err error) {
	t.Helper()
	errs, ok := err.(Errors)
	if !ok || len(errs) < 1 || len(errs) > maxErrors {
		t.Fatalf("Parse: %T with %d errors", err, len(errs))
	}
	lines := strings.Split(text, "\n")
	for _, e := range errs {
		if e.Line < 1 || e.Line > len(lines) || e.Column < 1 || e.Column > utf8.RuneCountInString(lines[e.Line-1])+1 || e.Reason == "" {
			t.Errorf("the place of this error is not in the file: %v", e)
		}
	}
}

// checkFile checks properties of each accepted file.
func checkFile(t *testing.T, file *File) {
	t.Helper()
	for _, domain := range file.Domains {
		if !isName(domain.Name) {
			t.Errorf("domain %q", domain.Name)
		}
		for _, l := range domain.Limits {
			if !isName(l.Name) || l.size().isTooLarge() {
				t.Errorf("limit %+v", l)
			}
			for amounts := range l.amountLists() {
				if len(amounts) < 1 {
					t.Errorf("limit %+v has a list without amounts", l)
				}
			}
			for _, c := range l.When.All {
				if again := matcherOf(t, c.Matcher.String()); !reflect.DeepEqual(again, c.Matcher) {
					t.Errorf("%s: parsed again: %+v", c.Matcher, again)
				}
			}
		}
	}
}

// TestParse_Mutations replaces single characters of valid files, and checks the places of all errors.
func TestParse_Mutations(t *testing.T) {
	replacements := []string{"", "{", "]", `"`, ": ", "*", "\n"}
	for name, text := range readAll(t, "testdata/valid/*.yaml") {
		for i := range text {
			_, size := utf8.DecodeRuneInString(text[i:])
			mutant := text[:i] + replacements[i%len(replacements)] + text[i+size:]
			if _, err := Parse(name, []byte(mutant), loadZone); err != nil {
				checkErrors(t, mutant, err)
			}
		}
	}
}
