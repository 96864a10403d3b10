package resp

import (
	"math/rand/v2"
	"testing"
)

// seed returns at most the first 300 bytes of the input of a sample. The input is truncated, because the fuzzer takes a
// minute to find the relevant bytes in an input of 70000 bytes.
func (s sample) seed() []byte { return []byte(s.input[:min(len(s.input), 300)]) }

// FuzzReader compares the result of a Reader with that of the function reference, for any limits and for three
// divisions of the input into reads. In addition, readAll checks the memory of the Reader.
func FuzzReader(f *testing.F) {
	for _, s := range corpus {
		l := s.limits
		f.Add(s.seed(), uint32(l.Args), uint32(l.Bulk), uint32(l.Inline), uint32(l.Query), l.Unauthenticated, uint64(1))
		f.Add(s.seed(), uint32(3), uint32(12), uint32(20), uint32(40), true, uint64(2))
	}
	f.Fuzz(func(t *testing.T, input []byte, args, bulk, inline, query uint32, unauthenticated bool, seed uint64) {
		l := Limits{Args: int(args), Bulk: int(bulk), Inline: int(inline), Query: int(query), Unauthenticated: unauthenticated}
		want := reference(l, string(input))
		rnd := rand.New(rand.NewPCG(seed, 0))
		for how, src := range map[string]pieces{
			"at once":      {string(input)},
			"byte by byte": bytewise(string(input)),
			"in pieces":    randomCuts(rnd, input),
		} {
			if got := readAll(t, l, src); !got.equals(want) {
				t.Fatalf("limits %+v, input %q, read %s: got %s, want %s", l, input, how, got, want)
			}
		}
	})
}
