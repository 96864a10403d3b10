package rules

// Value is the value of an attribute that is counted separately, and the attribute of the request from which it is
// taken. It is a Source whose value is still in the memory of the request.
type Value struct {
	Attribute string // "" if the request has none of the attributes; these requests share a counter
	Value     []byte // borrowed from the request
}
