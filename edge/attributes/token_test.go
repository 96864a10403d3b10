package attributes

import (
	"encoding/json"
	"strings"
	"testing"
)

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

// oracle is find by package encoding/json.
func oracle(object map[string]json.RawMessage, path string) json.RawMessage {
	if value, ok := object[path]; ok {
		return value
	}
	name, rest, nested := strings.Cut(path, ".")
	var inner map[string]json.RawMessage
	if !nested || json.Unmarshal(object[name], &inner) != nil {
		return nil
	}
	return oracle(inner, rest)
}

func FuzzFind(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a.b":"x","a":{"b" : [1,{"c":"}\\""}],"b":null}}`, ` {"\u0061":{"b":true}}`, `{}`, `{"a":-1e5 , "b" :[] }`, `{"":{"":""}}`, `{"a":{},"a":2}`} {
		for _, path := range []string{"a", "a.b", "a.b.c", ".", ""} {
			f.Add(seed, path)
		}
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &object) != nil || object == nil {
			return
		}
		if got, want := string(find([]byte(text), path)), string(oracle(object, path)); got != want {
			t.Errorf("find(%s, %q): %q, want %q", text, path, got, want)
		}
	})
}
