package edge

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// checkBody is a body of /v1/check as encoding/json decodes it.
type checkBody struct {
	Domain     *string           `json:"domain"`
	Attributes map[string]string `json:"attributes"`
	Cost       *int64            `json:"cost"`
	Peek       bool              `json:"peek"`
}

// FuzzDecode compares the decoder with encoding/json, which accepts everything that the decoder accepts, with the same
// values.
func FuzzDecode(f *testing.F) {
	for _, c := range bodies() {
		if _, content, _ := strings.Cut(c.bytes, "\r\n\r\n"); len(content) < 1000 {
			f.Add(content)
		}
	}
	for _, seed := range []string{
		benchBody, ` { "domain" : "a\n\u00e4\ud83d\ude00" , "attributes" : { } , "cost" : -0 , "peek" : true } `, `{"attributes":{"a,}":"{\"","":"\\"}}`,
		`{"attributes":{"a":"]","b\"":"\\\""}}`, "{\"cost\"\n:\t7\r}", `{"domain":"\ud800"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		var b body
		b.reset("default")
		if decodeBody([]byte(content), checkFields, &b) != nil {
			return
		}
		var want checkBody
		d := json.NewDecoder(bytes.NewReader([]byte(content)))
		d.DisallowUnknownFields()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("%q is accepted; encoding/json: %v", content, err)
		}
		if want.Domain == nil {
			want.Domain = new(string)
			*want.Domain = "default"
		}
		if want.Cost == nil {
			want.Cost = new(int64)
			*want.Cost = 1
		}
		attributes := map[string]string{}
		for pair := range slices.Chunk(b.attributes, 2) {
			attributes[pair[0]] = pair[1]
		}
		if b.domain != *want.Domain || b.cost != *want.Cost || b.peek != want.Peek || !maps.Equal(attributes, want.Attributes) {
			t.Errorf("%q: %+v, want %+v", content, b, want)
		}
	})
}

// The values of an earlier request have no effect on later ones.
func TestBodyReset(t *testing.T) {
	var b body
	b.reset("shop")
	if err := decodeBody([]byte(`{"domain":"a","attributes":{"a":"b"},"cost":3,"peek":true}`), checkFields, &b); err != nil {
		t.Fatal(err)
	}
	b.reset("shop")
	if b.domain != "shop" || len(b.attributes) > 0 || b.cost != 1 || b.peek || b.quantity != 1 {
		t.Errorf("%+v", b)
	}
	if all := b.attributes[:2]; all[0] != "" || all[1] != "" {
		t.Errorf("the attributes are kept: %q", all)
	}
}

func TestEncode(t *testing.T) {
	for text, want := range map[string]string{"": `""`, "a b~": `"a b~"`, `a"\`: `"a\"\\"`, "\n\x00ä": `"\n\u0000ä"`} {
		got := string(appendText(nil, text))
		var back string
		if err := json.Unmarshal([]byte(got), &back); got != want || err != nil || back != text {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
