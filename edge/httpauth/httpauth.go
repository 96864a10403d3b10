// Package httpauth parses the credentials in the header Authorization, and in the gRPC metadata of the same name.
//
// It supports the schemes Basic (RFC 7617) and Bearer (RFC 6750). The value of Bearer is a token, see acl.Set.SplitToken.
package httpauth

import (
	"crypto/subtle"
	"encoding/base64"
	"strings"
)

// Parse returns the user and the password in a header. The user is empty for the scheme Bearer. ok is false if the header
// is malformed, or has another scheme.
func Parse(header string) (user, password string, ok bool) {
	scheme, value, _ := strings.Cut(header, " ")
	value = strings.TrimLeft(value, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return "", value, true
	case strings.EqualFold(scheme, "Basic"):
		decoded, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			return "", "", false
		}
		return strings.Cut(string(decoded), ":")
	}
	return "", "", false
}

// Equal reports whether two secrets are equal, in a time that depends on their lengths only. It allocates no memory.
func Equal(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	var differences byte
	for i := range len(a) {
		differences |= a[i] ^ b[i]
	}
	return subtle.ConstantTimeByteEq(differences, 0) == 1
}
