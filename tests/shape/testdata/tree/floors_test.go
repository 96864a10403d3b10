package tree

var floors = map[string]int{
	"low":      0,
	"high":     1,
	"loose":    1,
	"cmd/prog": 2,
}
