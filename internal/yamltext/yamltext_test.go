package yamltext

import "testing"

func TestDocuments(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string // roots, which are scalars
		fail bool
	}{
		{"", nil, false},
		{"# only a comment\n", nil, false},
		{"a", []string{"a"}, false},
		{"a\n---\nb\n---\nc\n", []string{"a", "b", "c"}, false},
		{"a\n---\n[", nil, true},
		{"\t", nil, true},
	} {
		list, err := Documents(tt.text)
		if (err != nil) != tt.fail || len(list) != len(tt.want) {
			t.Errorf("Documents(%q) returns %d documents and the error %v, want %d, and an error: %t", tt.text, len(list), err, len(tt.want), tt.fail)
			continue
		}
		for i, want := range tt.want {
			if got := list[i].Content[0].Value; got != want {
				t.Errorf("Documents(%q): the root of document %d is %q, want %q", tt.text, i, got, want)
			}
		}
	}
}

// FuzzDocuments checks that no text causes a panic.
func FuzzDocuments(f *testing.F) {
	for _, seed := range []string{"", "a: [b, c]\n---\nd", "&a [*a]", "? ? ?", "a: !!binary x", "%YAML 9\n---", "\xff\xfe", "- |\n\t x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Documents(text)
		for _, document := range list {
			if err != nil || len(document.Content) != 1 {
				t.Errorf("Documents(%q) returns a document with %d roots and the error %v", text, len(document.Content), err)
			}
		}
	})
}
