module github.com/throttledhq/throttled/tests/schema

go 1.25.0

require (
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/throttledhq/throttled v0.0.0
	go.yaml.in/yaml/v3 v3.0.4
)

require (
	github.com/gaissmai/bart v0.30.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace github.com/throttledhq/throttled => ../..
