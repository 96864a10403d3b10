module github.com/throttledhq/throttled/tests/bench

go 1.25.0

replace github.com/throttledhq/throttled => ../..

require (
	github.com/HdrHistogram/hdrhistogram-go v1.2.0
	github.com/throttledhq/throttled v0.0.0
	golang.org/x/net v0.58.0
	golang.org/x/sys v0.47.0
)

require golang.org/x/text v0.41.0 // indirect
