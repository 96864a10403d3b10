package attributes

import (
	"slices"
	"strings"
	"testing"
)

// TestAppend_Metadata checks attributes from the metadata of filters.
func TestAppend_Metadata(t *testing.T) {
	s, err := ParseSources([]string{"user=metadata:envoy.filters.http.jwt_authn:jwt_payload.sub", "plan=verified:metadata:n:p"})
	if err != nil {
		t.Fatal(err)
	}
	r := &Request{Method: "GET", Target: "/", Metadata: func(namespace, path string) string {
		if namespace == "envoy.filters.http.jwt_authn" && path == "jwt_payload.sub" {
			return "ann"
		}
		return ""
	}}
	got, err := s.Append(nil, r)
	if want := []string{"method", "GET", "path", "/", "user", "ann"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	r.Metadata = nil
	if got, err = s.Append(nil, r); err != nil || len(got) != 4 {
		t.Errorf("without metadata: %q, %v", got, err)
	}
	for _, word := range []string{"user=metadata:", "user=metadata:n", "user=metadata:n:", "user=metadata::p"} {
		if _, err := ParseSources([]string{word}); err == nil || !strings.Contains(err.Error(), "metadata:NAMESPACE:PATH") {
			t.Errorf("%s: %v, want an error with the form", word, err)
		}
	}
}
