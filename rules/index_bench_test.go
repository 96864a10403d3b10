package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// sizes are the numbers of limits, and of overrides, whose cost is compared.
var sizes = []int{10, 1_000, 100_000}

// largeFile is the text of a file with n limits or overrides, and requests for it.
type largeFile struct {
	text     string
	requests int
	request  func(i int) string
}

// mixedLimits returns a file with n limits by networks, prefixes, templates and exact values, in equal numbers. Each
// request matches four limits.
func mixedLimits(n int) largeFile {
	var b strings.Builder
	b.WriteString("version: 1\ndomain: d\nattributes: {client: {first_of: [key, ip]}}\nlimits:\n")
	for i := range n {
		k := i / 4
		when := [...]string{
			fmt.Sprintf("{path: /s%d/*, method: [GET, POST]}", k),
			fmt.Sprintf(`{path: "/s%d/{id}/orders"}`, k),
			fmt.Sprintf("{client: key%d, path: /s%d/*}", k, k),
			fmt.Sprintf("{ip: 10.%d.%d.0/24}", k>>8, k&255),
		}[i%4]
		fmt.Fprintf(&b, "  l%d: {when: %s, per: [client], allow: 100 per minute}\n", i, when)
	}
	return largeFile{b.String(), n / 4, func(i int) string {
		return fmt.Sprintf("path=/s%d/7/orders method=GET key=key%d ip=10.%d.%d.9 unused=x", i, i, i>>8, i&255)
	}}
}

// gridLimits returns a file with about n limits, one for each path and client, so that many limits share each path and
// each client. Each request matches four limits.
func gridLimits(n int) largeFile {
	side := 1
	for side*side < n {
		side++
	}
	var b strings.Builder
	b.WriteString("version: 1\ndomain: d\nlimits:\n")
	for i := range n {
		fmt.Fprintf(&b, "  l%d: {when: {path: /p%d, client: c%d}, per: [client], allow: 100 per minute}\n", i, i%side, i/side)
	}
	b.WriteString("  all: {allow: 1000 per minute}\n  get: {when: {method: GET}, allow: 500 per minute}\n" +
		"  each: {when: {path: /p*}, per: [client], allow: 100 per day}\n")
	return largeFile{b.String(), n, func(i int) string {
		return fmt.Sprintf("path=/p%d client=c%d method=GET ip=10.0.0.1 unused=x", i%side, i/side)
	}}
}

// manyOverrides returns a file with a limit that has n overrides. One of them applies to each request.
func manyOverrides(n int) largeFile {
	var b strings.Builder
	b.WriteString("version: 1\ndomain: d\nlimits:\n  all:\n    per: [client]\n    allow: 1 per minute\n    overrides:\n")
	for i := range n {
		fmt.Fprintf(&b, "      - {when: {client: c%d}, allow: 5000 per minute, until: 2027-01-31}\n", i)
	}
	return largeFile{b.String(), n, func(i int) string {
		return fmt.Sprintf("path=/p client=c%d method=GET ip=10.0.0.1 unused=x", i)
	}}
}

// largeFiles are the kinds of files whose cost is compared.
var largeFiles = []struct {
	name string
	make func(n int) largeFile
	want int // limits that each request matches
}{{"mixed", mixedLimits, 4}, {"grid", gridLimits, 4}, {"overrides", manyOverrides, 1}}

// BenchmarkMatch measures a match. "hot" repeats 16 requests, so that the memory that they use is in the caches of the
// processor; "spread" uses all limits or overrides in turn.
func BenchmarkMatch(b *testing.B) {
	for _, kind := range largeFiles {
		for _, n := range sizes {
			file := kind.make(n)
			d := compile(b, file.text)
			for _, requests := range []int{min(16, file.requests), file.requests} {
				name := map[bool]string{true: "hot", false: "spread"}[requests <= 16]
				b.Run(fmt.Sprintf("%s/%d/%s", kind.name, n, name), func(b *testing.B) { benchmarkMatch(b, d, file, requests) })
				if file.requests <= 16 {
					break
				}
			}
		}
	}
}

func benchmarkMatch(b *testing.B, d *CompiledDomain, file largeFile, requests int) {
	list := make([][][]byte, requests)
	for i := range list {
		list[i] = pairsOf(file.request(i * (file.requests / requests)))
	}
	var m Matches
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := d.Match(list[i], time.Time{}, &m); err != nil {
			b.Fatal(err)
		}
		if i++; i == len(list) {
			i = 0
		}
	}
}

// BenchmarkLoad measures Parse and Compile of 100,000 limits or overrides.
func BenchmarkLoad(b *testing.B) {
	for _, kind := range largeFiles {
		text := []byte(kind.make(100_000).text)
		b.Run(kind.name+"/parse", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse("large.yaml", text, loadZone); err != nil {
					b.Fatal(err)
				}
			}
		})
		file := parse(b, string(text))
		b.Run(kind.name+"/compile", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Compile(file); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestLargeFiles checks the number of limits that match, and that a match does not allocate memory.
func TestLargeFiles(t *testing.T) {
	for _, kind := range largeFiles {
		for _, n := range sizes[:2] {
			file := kind.make(n)
			d := compile(t, file.text)
			var m Matches
			for i := range file.requests {
				if checkMatch(t, d, pairsOf(file.request(i)), time.Time{}, &m); len(m.List) != kind.want {
					t.Fatalf("%s, %d: request %d matches %d limits, want %d", kind.name, n, i, len(m.List), kind.want)
				}
			}
			pairs := pairsOf(file.request(0))
			if got := testing.AllocsPerRun(100, func() { _ = d.Match(pairs, time.Time{}, &m) }); got != 0 {
				t.Errorf("%s, %d: a match allocates memory %v times, want 0", kind.name, n, got)
			}
		}
	}
}
