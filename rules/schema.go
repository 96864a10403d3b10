package rules

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// schema is a JSON Schema (draft 7) of a value. Since the decoder reads the text of each value, a schema permits all
// types of JSON that a YAML library may make of a text.
type schema struct {
	Draft       string             `json:"$schema,omitempty"`
	Title       string             `json:"title,omitempty"` // names the values in the reference document
	Description string             `json:"description,omitempty"`
	Ref         string             `json:"$ref,omitempty"`
	Type        []string           `json:"type,omitempty"`
	Enum        []any              `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"` // of strings
	Minimum     int64              `json:"minimum,omitempty"` // of numbers
	Maximum     int64              `json:"maximum,omitempty"`
	Not         *schema            `json:"not,omitempty"`
	AnyOf       []*schema          `json:"anyOf,omitempty"`
	AllOf       []*schema          `json:"allOf,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	MinItems    int                `json:"minItems,omitempty"`
	MaxItems    int                `json:"maxItems,omitempty"`
	Unique      bool               `json:"uniqueItems,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Others      any                `json:"additionalProperties,omitempty"` // *schema, or false
	Names       *schema            `json:"propertyNames,omitempty"`
	Required    []string           `json:"required,omitempty"`
	MinKeys     int                `json:"minProperties,omitempty"`
	MaxKeys     int                `json:"maxProperties,omitempty"`
	Definitions map[string]*schema `json:"definitions,omitempty"`
}

// Schema returns the JSON Schema (draft 7) of one YAML document of a rules file, derived from the tables of keys.
// Editors complete and check files with it.
//
// Each file that Parse accepts conforms to the schema. The schema refuses unknown and missing keys, and values of
// wrong types. It does not detect all errors that Parse detects.
func Schema() []byte {
	root := domainKeys.schema().withAny("limits", "default")
	root.Definitions = map[string]*schema{
		"when":    whenSchema(),
		"matcher": matcherSchema(),
		"allow":   allowSchema(),
	}
	return root.document("rules file of throttled")
}

// document returns the text of the schema of a document.
func (s *schema) document(title string) []byte {
	s.Draft, s.Title = "http://json-schema.org/draft-07/schema#", title
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("rules: the schema has a value without a JSON form: " + err.Error())
	}
	return append(text, '\n')
}

// The schemas that refer to themselves, or are long and used in several places.
var (
	whenRef    = &schema{Title: "conditions", Ref: "#/definitions/when"}
	matcherRef = &schema{Title: "matcher", Ref: "#/definitions/matcher"}
	allowRef   = &schema{Title: "amount, list of amounts, or map of tiers", Ref: "#/definitions/allow"}
)

const (
	namePattern  = `^[A-Za-z0-9._-]{1,64}$`
	clockPattern = `([01][0-9]|2[0-3]):[0-5][0-9]`
)

// The schemas of single values.
var (
	textSchema      = &schema{Title: "text", Type: []string{"string", "number", "boolean"}, Pattern: "."}
	nameSchema      = &schema{Title: "name", Type: textSchema.Type, Pattern: namePattern}
	nameListSchema  = oneOrList(nameSchema).unique()
	versionSchema   = &schema{Title: "1", Enum: []any{1, "1"}}
	percentSchema   = &schema{Title: "percentage", Type: []string{"string"}, Pattern: `^([1-9][0-9]?|100) ?%$`}
	booleanSchema   = &schema{Title: "true or false", Enum: []any{true, false, "true", "false"}}
	zoneSchema      = &schema{Title: "time zone", Type: []string{"string"}, Pattern: "."}
	untilSchema     = &schema{Title: "date or time", Type: []string{"string"}, Pattern: `^[0-9]{4}-[0-9]{2}-[0-9]{2}(T.+)?$`}
	betweenSchema   = &schema{Title: "two times of day", Type: []string{"string"}, Pattern: `^\s*` + clockPattern + `\s*-\s*(` + clockPattern + `|24:00)\s*$`}
	durationSchema  = &schema{Title: "length of time", Type: []string{"string"}, Pattern: `^\s*[0-9]*\s*[A-Za-z]+\s*$`}
	amountSchema    = &schema{Title: "amount", Type: []string{"string"}, Pattern: amountPattern}
	algorithmSchema = &schema{Title: "algorithm", AnyOf: []*schema{
		choiceSchema(slices.DeleteFunc(slices.Clone(algorithmNames), func(name string) bool { return name == Buckets.String() })...),
		{Type: []string{"string"}, Pattern: `^buckets\s*[0-9]+\s*$`},
	}}
	jsonSchema = &schema{Title: "JSON object", Type: []string{"string"}, Pattern: `^\s*\{`}
	costSchema = &schema{Title: "number, attribute, or map", AnyOf: []*schema{
		integerSchema(1, math.MaxInt64), {Type: []string{"string"}, Pattern: namePattern, Not: verifiedNameSchema.Not},
		{Type: []string{"object"}, Names: verifiedNameSchema, MinKeys: 1, MaxKeys: 1,
			Others: &schema{Type: []string{"object"}, MinKeys: 1, Others: integerSchema(1, math.MaxInt64)}},
	}}
)

// The schemas of attributes whose values a client must not choose.
var (
	verifiedNameSchema     = &schema{Title: "name", Type: textSchema.Type, Pattern: namePattern, Not: &schema{Type: []string{"string"}, Pattern: `^unverified\.`}}
	verifiedNameListSchema = oneOrList(verifiedNameSchema).unique()
)

// amountPattern matches each amount, and no text without a period.
var amountPattern = fmt.Sprintf(`/|(^|\s)%s(\s|$)|^\s*(%s|%s)\s*$`, foldPattern("per"), foldPattern("unlimited"), foldPattern("none"))

// foldPattern returns a pattern that matches a word of lower-case letters in upper and lower case.
func foldPattern(word string) string {
	var b strings.Builder
	for _, r := range word {
		fmt.Fprintf(&b, "[%c%c]", r-'a'+'A', r)
	}
	return b.String()
}

// integerSchema returns the schema of integers within a range. The integer may be in quotes.
func integerSchema(low, high int64) *schema {
	title := fmt.Sprintf("integer from %d to %d", low, high)
	if high == math.MaxInt64 {
		title, high = fmt.Sprintf("integer of at least %d", low), 0 // omitted, since JSON libraries round large numbers
	}
	return &schema{Title: title, Type: []string{"integer", "string"}, Minimum: low, Maximum: high, Pattern: `^[1-9][0-9]*$`}
}

// choiceSchema returns the schema of a text from a list.
func choiceSchema(choices ...string) *schema {
	s := &schema{Title: strings.Join(choices, ", ")}
	for _, choice := range choices {
		s.Enum = append(s.Enum, choice)
	}
	return s
}

// listSchema returns the schema of a list that is not empty.
func listSchema(item *schema) *schema {
	return &schema{Title: "list of maps", Type: []string{"array"}, Items: item, MinItems: 1}
}

// oneOrList returns the schema of a value, or a list of such values.
func oneOrList(item *schema) *schema {
	return &schema{Title: item.Title + ", or a list", AnyOf: []*schema{item, {Type: []string{"array"}, Items: item, MinItems: 1}}}
}

// unique makes the items of a list distinct.
func (s *schema) unique() *schema {
	s.AnyOf[1].Unique = true
	return s
}

// namedMap returns the schema of a map whose keys are names that the author of the file chooses.
func namedMap(what string, item *schema) *schema {
	return &schema{Title: fmt.Sprintf("map from the name of each %s to its keys", what), Type: []string{"object"}, Names: nameSchema, MinKeys: 1, Others: item}
}

// schema returns the schema of a map with the keys of the table.
func (ks keys[T]) schema() *schema {
	s := &schema{Title: "map", Type: []string{"object"}, Others: false, MinKeys: 1, Properties: map[string]*schema{}}
	for _, k := range ks {
		if k.decode == nil {
			continue
		}
		s.Properties[k.name] = k.value.described(fmt.Sprintf("%s\n\nExample: %s: %s", k.doc, k.name, k.example))
		if k.required {
			s.Required = append(s.Required, k.name)
		}
	}
	return s
}

// described returns the schema with a description. A reference is put into a list, because draft 7 ignores the keys
// beside it.
func (s *schema) described(text string) *schema {
	described := *s
	if s.Ref != "" {
		described = schema{AllOf: []*schema{{Ref: s.Ref}}}
	}
	described.Title, described.Description = "", text
	return &described
}

// withCount sets the minimum and the maximum number of keys of a map. A maximum of 0 is none.
func (s *schema) withCount(low, high int) *schema {
	s.MinKeys, s.MaxKeys = low, high
	return s
}

// withAny requires one of the keys.
func (s *schema) withAny(names ...string) *schema {
	for _, name := range names {
		s.AnyOf = append(s.AnyOf, &schema{Required: []string{name}})
	}
	return s
}

// whenSchema returns the schema of conditions.
func whenSchema() *schema {
	return &schema{
		Description: "attributes and their values, all of which must match; any has a list of alternatives",
		Type:        []string{"object"}, MinKeys: 1, Names: nameSchema,
		Properties: map[string]*schema{anyKey: oneOrList(&schema{Ref: whenRef.Ref})},
		Others:     &schema{Ref: matcherRef.Ref},
	}
}

// matcherSchema returns the schema of a condition on one attribute.
func matcherSchema() *schema {
	return &schema{
		Description: "a text whose form is that of the matcher, a list of which one must match, or a map of one key",
		AnyOf: []*schema{
			textSchema,
			{Type: []string{"array"}, MinItems: 1, Items: &schema{Ref: matcherRef.Ref}},
			matcherKeys().schema().withCount(1, 1),
		},
	}
}

// allowSchema returns the schema of amounts.
func allowSchema() *schema {
	list := oneOrList(amountSchema)
	list.AnyOf[1].MaxItems = maxLimits
	return &schema{
		Description: "an amount, such as 100 per minute, a list of amounts, or a map of tiers",
		AnyOf:       append(list.AnyOf, &schema{Type: []string{"object"}, Names: nameSchema, MinKeys: 1, Others: list}),
	}
}
