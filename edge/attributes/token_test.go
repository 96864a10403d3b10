package attributes

import "testing"

func TestClaim(t *testing.T) {
	const text = `{"s" : "a\u00e9\n" ,"empty":"","n": 12.50,"big":12345678901234567890,"neg":-1e3,"t":true,"f":false,"null":null,
		"twice":"first","twice":"last","o":{"a":{"b":"deep"},"x.y":"dotted"},"a.b":"whole","https://example.com/plan":"pro","a":{"b":"nested","c":"c"}}`
	var token token
	if err := token.decode(payload(text)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"s": "aé\n", "empty": "", "n": "12.50", "big": "12345678901234567890", "neg": "-1e3", "t": "true", "f": "false",
		"null": "", "absent": "", "twice": "last", "o.a.b": "deep", "o.x.y": "dotted", "o.a.c": "", "a.b": "whole", "a.c": "c", "s.x": "", "null.x": "", "a.": "", ".": "",
		"https://example.com/plan": "pro", "S": ""} {
		if got, err := token.claim(path); err != nil || got != want {
			t.Errorf("claim %s: %q, %v; want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"o", "o.a"} {
		if got, err := token.claim(path); err == nil {
			t.Errorf("claim %s: %q, want an error", path, got)
		}
	}
}

// A token is decoded once for all of its claims, and another token replaces it.
func TestToken_Decode(t *testing.T) {
	var token token
	first, second := payload(`{"a":1}`), payload(`{"a":2}`)
	for _, c := range []struct{ text, want string }{{first, "1"}, {first, "1"}, {second, "2"}, {"x." + first + ".y", "1"}} {
		if err := token.decode(c.text); err != nil {
			t.Fatal(err)
		}
		if got, err := token.claim("a"); got != c.want || err != nil {
			t.Errorf("token %s: %q, %v; want %s", c.text, got, err, c.want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { _ = token.decode("x." + first + ".y") }); n > 1 { // the argument
		t.Errorf("%v allocations for a token that is decoded already", n)
	}
}
