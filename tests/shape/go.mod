module github.com/throttledhq/throttled/tests/shape

go 1.25.0
