// Package race scales tests down under the race detector.
//
// The detector makes code about ten times slower, and cannot find races in a test with a
// single goroutine. Such a test divides its number of steps by Factor. "make test" also
// runs such tests without the detector, see RACED_LESS in the Makefile; "make schedules" runs those of cluster.
package race
