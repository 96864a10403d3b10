//go:build race

package buckets

// raced is by how much the race detector, which finds nothing where there is one goroutine, makes such
// tests do less. Without it they do all.
const raced = 4
