// Package race scales tests down under the race detector.
//
// The detector makes code about ten times as slow, and finds nothing in a test of one goroutine. Such a test divides
// the number of its steps by Factor. "make test" also runs the packages that use Factor without the detector.
package race
