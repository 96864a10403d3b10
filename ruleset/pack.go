package ruleset

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
)

// pack compresses a text. Texts are stored and replicated in this form: rules repeat the same words, so the compressed
// text is usually about a tenth of the size.
func pack(text string) []byte {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is valid
	}
	_, _ = io.WriteString(w, text) // writing to a bytes.Buffer does not fail
	_ = w.Close()
	return b.Bytes()
}

// unpack returns the text of a version. It returns an error that wraps ErrDamaged if the text is longer than MaxText, or if its
// hash differs from the hash of the version.
func unpack(packed []byte, v *Version) (string, error) {
	r := flate.NewReader(bytes.NewReader(packed))
	text, err := io.ReadAll(io.LimitReader(r, MaxText+1))
	if err != nil {
		return "", fmt.Errorf("version %d: %w: %w", v.Number, ErrDamaged, err)
	}
	if len(text) > MaxText || HashOf(string(text)) != v.Hash {
		return "", fmt.Errorf("version %d: %w", v.Number, ErrDamaged)
	}
	return string(text), nil
}
