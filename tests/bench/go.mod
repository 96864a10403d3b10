module github.com/throttledhq/throttled/tests/bench

go 1.25.0

replace github.com/throttledhq/throttled => ../..

require github.com/throttledhq/throttled v0.0.0
