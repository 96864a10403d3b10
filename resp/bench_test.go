package resp

import (
	"bytes"
	"fmt"
	"testing"
)

const throttleCommand = "*5\r\n$11\r\nCL.THROTTLE\r\n$22\r\nuser:1234567:api:write\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n"

// endless is a connection that repeats a text forever.
type endless struct {
	text []byte
	at   int
	most int // maximum bytes of one read
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), e.most)], e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

// BenchmarkReader measures the time per command, for different numbers of commands per read.
func BenchmarkReader(b *testing.B) {
	for _, depth := range []int{1, 16, 100} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			size := depth * len(throttleCommand)
			src := &endless{text: bytes.Repeat([]byte(throttleCommand), depth), most: size}
			r := NewReader(authenticatedLimits)
			for range 8 { // until the buffer has reached its final size
				_, _ = r.Fill(src)
				drain(b, r)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(throttleCommand)))
			for n := 0; n < b.N; {
				_, _ = r.Fill(src)
				n += drain(b, r)
			}
		})
	}
}

// drain reads all complete commands and returns their number.
func drain(tb testing.TB, r *Reader) (n int) {
	for {
		args, err := r.Next()
		if err != nil {
			tb.Fatal(err)
		}
		if args == nil {
			return n
		}
		n++
	}
}
