module github.com/throttledhq/throttled/tests/gateways

go 1.25.0

require github.com/throttledhq/throttled v0.0.0

replace github.com/throttledhq/throttled => ../..
