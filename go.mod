module github.com/throttledhq/throttled

go 1.25.0

require (
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/tidwall/redcon v1.6.2
)

require (
	github.com/tidwall/btree v1.1.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
)
