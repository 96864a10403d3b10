package edge

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/throttledhq/throttled/edge/decision"
)

// body holds the fields of the bodies of all endpoints.
type body struct {
	domain     string
	attributes []string // names and values, alternating
	cost       int64
	peek       bool
	outcome    string
	checks     []decision.Request

	key       string
	first     int64 // max_burst or limit
	count     int64
	period    string
	algorithm string
	quantity  int64
}

// reset sets the default values of all fields.
func (b *body) reset(domain string) {
	clear(b.attributes)
	clear(b.checks)
	*b = body{domain: domain, attributes: b.attributes[:0], checks: b.checks[:0], cost: 1, quantity: 1}
}

// field is a field of the body of an endpoint. The decoder and the OpenAPI document are derived from it.
type field struct {
	name     string // lower case
	help     string
	required bool
	value    func(b *body) value
}

// value is the value of a field.
type value interface {
	// decode sets the value. The error does not name the field.
	decode(data []byte) error
	// schema returns the JSON Schema of the value.
	schema() object
}

// object is a JSON object.
type object = map[string]any

// Limits of bodies.
const (
	maxAttributes = 64
	maxChecks     = 100
)

var checkFields = []field{
	{"domain", "Domain of the rules. The default is the option edge-domain.", false, func(b *body) value { return text{to: &b.domain, min: 1} }},
	{"attributes", "Attributes of the request, such as path and ip.", false, func(b *body) value { return pairs{&b.attributes} }},
	{"cost", "Units of the request. A negative number refunds units, which requires a password.", false, func(b *body) value { return integer{&b.cost, math.MinInt64} }},
	{"peek", "Read the state without a charge.", false, func(b *body) value { return boolean{&b.peek} }},
}

var batchFields = []field{
	{"checks", "Up to 100 checks. Each is decided on its own, in this order.", true, func(b *body) value { return checks{b} }},
}

var reportFields = []field{
	checkFields[0],
	checkFields[1],
	{"outcome", "Outcome of the request, such as status=401.", true, func(b *body) value { return text{to: &b.outcome, min: 1} }},
	{"cost", "Units of the request.", false, func(b *body) value { return integer{&b.cost, 1} }},
}

var throttleFields = []field{
	{"key", "Key of the limit.", true, func(b *body) value { return text{to: &b.key, min: 1} }},
	{"max_burst", "Units above the first one that are admitted at once.", true, func(b *body) value { return integer{&b.first, 0} }},
	{"count_per_period", "Units per period.", true, func(b *body) value { return integer{&b.count, 1} }},
	{"period", "Seconds, or an integer with a unit: ms, s, m, h or d.", true, func(b *body) value { return period{&b.period} }},
	quantityField,
}

var windowFields = []field{
	throttleFields[0],
	{"limit", "Units per period.", true, func(b *body) value { return integer{&b.first, 1} }},
	throttleFields[3],
	{"algorithm", "Algorithm of the window. The default is sliding.", false, func(b *body) value { return choice{&b.algorithm, []string{"sliding", "fixed", "log"}} }},
	quantityField,
}

var quantityField = field{"quantity", "Units of the request. 0 reads the state; a negative number refunds units, which requires a password.", false,
	func(b *body) value { return integer{&b.quantity, math.MinInt64} }}

// text is a string with a minimum length.
type text struct {
	to  *string
	min int
}

func (t text) decode(data []byte) (err error) {
	if *t.to, err = textOf(data); err == nil && len(*t.to) < t.min {
		err = errors.New("must not be empty")
	}
	return err
}

func (t text) schema() object { return object{"type": "string", "minLength": t.min} }

// integer is an integer of at least min.
type integer struct {
	to  *int64
	min int64
}

func (n integer) decode(data []byte) (err error) {
	*n.to, err = strconv.ParseInt(string(data), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("is out of range: use an integer up to %d", math.MaxInt64)
	case err != nil:
		return errors.New("must be an integer, without a fraction or an exponent")
	case *n.to < n.min:
		return fmt.Errorf("must be at least %d", n.min)
	}
	return nil
}

func (n integer) schema() object {
	s := object{"type": "integer", "format": "int64"}
	if n.min > math.MinInt64 {
		s["minimum"] = n.min
	}
	return s
}

// boolean is true or false.
type boolean struct{ to *bool }

func (f boolean) decode(data []byte) error {
	*f.to = data[0] == 't'
	if data[0] != 't' && data[0] != 'f' {
		return errors.New("must be true or false")
	}
	return nil
}

func (f boolean) schema() object { return object{"type": "boolean"} }

// choice is one of a few words.
type choice struct {
	to    *string
	words []string
}

func (c choice) decode(data []byte) (err error) {
	if *c.to, err = textOf(data); err == nil && !slices.Contains(c.words, *c.to) {
		err = errors.New("must be one of " + strings.Join(c.words, ", "))
	}
	return err
}

func (c choice) schema() object { return object{"type": "string", "enum": c.words} }

// period is a number of seconds, or a text such as "5m". The server checks the range.
type period struct{ to *string }

func (p period) decode(data []byte) (err error) {
	if data[0] == '"' {
		*p.to, err = textOf(data)
	} else {
		*p.to = string(data)
	}
	number := strings.TrimRight(*p.to, "msdh")
	if _, parseErr := strconv.ParseUint(number, 10, 63); err != nil || parseErr != nil || !isUnit((*p.to)[len(number):]) {
		return errors.New(`must be a number of seconds, or a text such as "250ms", "1s", "5m", "1h" or "1d"`)
	}
	return nil
}

func isUnit(unit string) bool { return slices.Contains([]string{"", "ms", "s", "m", "h", "d"}, unit) }

func (p period) schema() object {
	return object{"oneOf": []object{{"type": "integer", "minimum": 1}, {"type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)?$"}}}
}

// pairs is an object of strings.
type pairs struct{ to *[]string }

func (p pairs) decode(data []byte) error {
	all := *p.to
	from := len(all)
	err := eachMember(data, func(name string, value []byte) error {
		for i := from; i < len(all); i += 2 {
			if all[i] == name {
				return &fieldError{"." + name, "is given twice"}
			}
		}
		if len(all)-from == 2*maxAttributes {
			return fmt.Errorf("has more than %d attributes", maxAttributes)
		}
		content, err := textOf(value)
		all = append(all, name, content)
		return within(err, "."+name)
	})
	*p.to = all
	return err
}

func (p pairs) schema() object {
	return object{"type": "object", "maxProperties": maxAttributes, "additionalProperties": object{"type": "string"}}
}

// checks is an array of bodies of /v1/check.
type checks struct{ b *body }

func (c checks) decode(data []byte) error {
	if data[0] != '[' {
		return errors.New("must be an array")
	}
	b := c.b
	domain := b.domain
	err := eachItem(data, func(item []byte) error {
		at := len(b.checks)
		if at == maxChecks {
			return fmt.Errorf("has more than %d elements", maxChecks)
		}
		from := len(b.attributes)
		b.domain, b.cost, b.peek = domain, 1, false
		if err := within(decodeObject(item, ".", checkFields, b), fmt.Sprintf("[%d]", at)); err != nil {
			return err
		}
		b.checks = append(b.checks, b.request(b.attributes[from:]))
		return nil
	})
	if err == nil && len(b.checks) == 0 {
		err = errors.New("must not be empty")
	}
	return err
}

func (c checks) schema() object {
	return object{"type": "array", "minItems": 1, "maxItems": maxChecks, "items": object{"$ref": "#/components/schemas/Check"}}
}

// request returns the check that the fields describe.
func (b *body) request(pairs []string) decision.Request {
	return decision.Request{Domain: b.domain, Pairs: pairs, Cost: b.cost, Peek: b.peek}
}
