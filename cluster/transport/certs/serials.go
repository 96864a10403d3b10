package certs

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// ErrSerials is wrapped if a list of revoked certificates is invalid.
var ErrSerials = errors.New("not a serial number: write one per line, in hexadecimal digits")

// ParseSerials parses a list of serial numbers of certificates, one per line. Numbers are in hexadecimal digits, in upper or
// lower case, with or without colons, as printed by "throttled certs". The prefix "serial=", as printed by
// openssl, is ignored. The rest of a line after # is a comment. The keys of the result have the form of [SerialOf]. Errors
// wrap ErrSerials. They do not contain the line, which may be a secret if the path is that of another file.
func ParseSerials(text string) (map[string]struct{}, error) {
	serials, number := map[string]struct{}{}, 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		digits := strings.ReplaceAll(strings.TrimPrefix(line, "serial="), ":", "")
		n, ok := new(big.Int).SetString(digits, 16)
		if !ok || n.Sign() <= 0 {
			return nil, fmt.Errorf("line %d: %w", number, ErrSerials)
		}
		serials[n.Text(16)] = struct{}{}
	}
	return serials, nil
}

// SerialOf returns the serial number of a certificate, in lower-case hexadecimal digits.
func SerialOf(c *x509.Certificate) string { return c.SerialNumber.Text(16) }

// EarliestExpiry returns the earliest expiry time of the certificates in a PEM text, or the zero time if it has none.
func EarliestExpiry(text []byte) (end time.Time) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && (end.IsZero() || cert.NotAfter.Before(end)) {
			end = cert.NotAfter
		}
	}
	return end
}
