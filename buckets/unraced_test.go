//go:build !race

package buckets

const raced = 1
