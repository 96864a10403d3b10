module github.com/throttledhq/throttled/tests/gateways

go 1.25.0

require (
	github.com/throttledhq/throttled v0.0.0
	github.com/throttledhq/throttled/tests/bench v0.0.0
	golang.org/x/net v0.58.0
)

require (
	github.com/HdrHistogram/hdrhistogram-go v1.2.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace github.com/throttledhq/throttled => ../..

replace github.com/throttledhq/throttled/tests/bench => ../bench
