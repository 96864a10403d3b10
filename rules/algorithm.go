package rules

import (
	"fmt"
	"strconv"
	"strings"
)

// Algorithm is the way in which the units of a limit are counted.
type Algorithm struct {
	Kind    AlgorithmKind
	Buckets int // number of sub-windows if Kind is Buckets, from 2 to 1024; else 0
}

// AlgorithmKind is the name of an Algorithm.
type AlgorithmKind uint8

// The kinds of an Algorithm.
const (
	GCRA AlgorithmKind = iota
	Sliding
	Fixed
	Log
	Buckets
	Bucket
	Leaky
)

// maxBuckets is the maximum number of sub-windows; the same as window.MaxParts.
const maxBuckets = 1024

var algorithmNames = []string{"gcra", "sliding", "fixed", "log", "buckets", "bucket", "leaky"}

// String returns the name in a rules file.
func (k AlgorithmKind) String() string { return algorithmNames[k] }

// String returns the algorithm as in a rules file.
func (a Algorithm) String() string {
	if a.Kind == Buckets {
		return fmt.Sprintf("buckets %d", a.Buckets)
	}
	return a.Kind.String()
}

// hasBurst reports whether amounts of the algorithm may have a burst.
func (a Algorithm) hasBurst() bool { return a.Kind == GCRA || a.Kind == Bucket }

// algorithm decodes a name, and the number after "buckets".
func (r *report) algorithm(v value) Algorithm {
	text, ok := r.text(v)
	if !ok {
		return Algorithm{}
	}
	if number, found := strings.CutPrefix(text, "buckets"); found {
		return Algorithm{Buckets, r.buckets(v, strings.TrimSpace(number))}
	}
	return Algorithm{Kind: AlgorithmKind(r.choose(v, algorithmNames))}
}

// buckets decodes the number after "buckets".
func (r *report) buckets(v value, number string) int {
	n, err := strconv.Atoi(number)
	if err != nil || strconv.Itoa(n) != number || n < 2 || n > maxBuckets {
		r.fail(v, fmt.Sprintf("%q is not a number of buckets from 2 to %d", clip(number), maxBuckets),
			`write "buckets 60" for a window of 60 parts`)
	}
	return n
}
