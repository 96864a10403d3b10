package edge

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/throttledhq/throttled/edge/headers"
)

// openAPI returns the OpenAPI document of the endpoints.
func openAPI(table []endpoint, version string) []byte {
	if version == "" {
		version = "unknown"
	}
	document, err := json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "throttled", "version": version,
			"description": "Decides whether requests are within their limits. The check endpoints for gateways are described in docs/http.md.",
			"license":     object{"name": "MIT", "identifier": "MIT"},
		},
		"servers":  []object{{"url": "/"}},
		"security": []object{{}, {"bearer": []string{}}, {"basic": []string{}}, {"token": []string{}}},
		"paths":    operations(table),
		"components": object{
			"schemas":         schemas(),
			"securitySchemes": securitySchemes,
		},
	})
	if err != nil {
		panic(err) // the document consists of maps, slices, strings and numbers
	}
	return document
}

var securitySchemes = object{
	"bearer": object{"type": "http", "scheme": "bearer"},
	"basic":  object{"type": "http", "scheme": "basic"},
	"token":  object{"type": "apiKey", "in": "header", "name": tokenHeader},
}

// commonResponses are those of all endpoints; those of bodies are of endpoints with a body.
var commonResponses = []response{
	{http.StatusUnauthorized, "Problem", "A password is required, or it is wrong."},
	{http.StatusForbidden, "Problem", "Protected mode, the header Origin, a refund without a password, or a user without the permission."},
	{http.StatusMisdirectedRequest, "Problem", "The name in the header Host is unknown."},
	{http.StatusTooManyRequests, "Problem", "The address has sent too many wrong passwords."},
	{http.StatusInternalServerError, "Problem", "The request has failed because of a bug."},
	{http.StatusServiceUnavailable, "Problem", "The request cannot be decided at present, or maxclients is reached."},
}

var bodyResponses = []response{
	{http.StatusBadRequest, "Problem", "The body is not valid. The message names the field."},
	{http.StatusRequestTimeout, "Problem", "The body was not complete in time."},
	{http.StatusRequestEntityTooLarge, "Problem", "The body has more than 64 KiB."},
	{http.StatusUnsupportedMediaType, "Problem", "The body is not JSON."},
}

// operations returns the object "paths".
func operations(table []endpoint) object {
	all := object{}
	for i := range table {
		e := &table[i]
		item, ok := all[e.path].(object)
		if !ok {
			item = object{}
			all[e.path] = item
		}
		item[lower(e.method)] = e.operation()
	}
	return all
}

func lower(method string) string {
	if method == http.MethodPost {
		return "post"
	}
	return "get"
}

// operation returns the object of an endpoint.
func (e *endpoint) operation() object {
	responses := object{}
	all := commonResponses
	if e.fields != nil {
		all = append(bodyResponses, all...)
	}
	for _, r := range append(all[:len(all):len(all)], e.responses...) { // those of the endpoint take precedence
		responses[strconv.Itoa(r.status)] = r.object()
	}
	op := object{"summary": e.summary, "operationId": e.id(), "responses": responses}
	if e.public {
		op["security"] = []object{}
	}
	if e.fields != nil {
		op["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": bodySchema(e.fields)}}}
	}
	return op
}

// id returns a name such as "post_v1_check".
func (e *endpoint) id() string {
	id := []byte(lower(e.method))
	for _, c := range []byte(e.path) {
		if c == '/' || c == '.' {
			c = '_'
		}
		id = append(id, c)
	}
	return string(id)
}

func (r *response) object() object {
	content := object{}
	switch r.kind {
	case "Problem":
		content[headers.ContentType] = object{"schema": reference(r.kind)}
	case "Refusal":
		content[headers.ContentType] = object{"schema": object{"anyOf": []object{reference("Refusal"), reference("Problem")}}}
	case "application/json":
		content[r.kind] = object{"schema": object{"type": "object"}}
	case "text/plain":
		content[r.kind] = object{"schema": object{"type": "string"}}
	default:
		content["application/json"] = object{"schema": reference(r.kind)}
	}
	return object{"description": r.help, "content": content}
}

func reference(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// bodySchema returns the schema of a body.
func bodySchema(fields []field) object {
	properties, required := object{}, []string{}
	for i := range fields {
		f := &fields[i]
		s := f.value(&body{}).schema()
		s["description"] = f.help
		properties[f.name] = s
		if f.required {
			required = append(required, f.name)
		}
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// Schemas of the members of responses.
var (
	wholeNumber = object{"type": "integer", "minimum": 0}
	anyText     = object{"type": "string"}
	yesOrNo     = object{"type": "boolean"}
	flagList    = object{"type": "array", "items": anyText}

	decisionFlags = join(flagList, object{"description": "The flags of CL.CHECK. Those of /v1/throttle and /v1/window are present only if upstream-away of a sidecar has decided the request."})
)

// closed returns the schema of an object that has no other members than the given ones. The optional ones may be absent.
func closed(members object, optional ...string) object {
	required := []string{}
	for name := range members {
		required = append(required, name)
	}
	return object{"type": "object", "properties": members, "required": without(required, optional), "additionalProperties": false}
}

// schemas returns the schemas of the components.
func schemas() object {
	state := object{
		"allowed": yesOrNo, "limit": wholeNumber, "remaining": wholeNumber, "reset_after_ms": wholeNumber,
	}
	wait := object{"retry_after_ms": wholeNumber}
	decided := join(state, object{
		"reset_after_seconds": wholeNumber, "name": anyText, "flags": decisionFlags, "version": wholeNumber,
		"limits": object{"type": "array", "items": reference("Limit")},
	})
	problem := object{
		"type": anyText, "title": anyText, "status": object{"type": "integer", "minimum": 100, "maximum": 599},
		"error": object{"type": "string", "description": "A word for programs."}, "message": object{"type": "string", "description": "The problem and the remedy."},
		"retry_after_seconds": object{"type": "integer", "minimum": 1, "description": "Absent if no wait helps."},
	}
	refusal := join(join(join(problem, decided), wait), object{"violated-policies": object{"type": "array", "items": anyText}})
	absent := []string{"limit", "remaining", "name", "flags", "limits", "version"}
	return object{
		"Check":    bodySchema(checkFields),
		"Decision": closed(decided, absent...),
		"Refusal":  closed(refusal, append(absent, "retry_after_ms", "retry_after_seconds")...),
		"Limit":    closed(join(join(state, wait), object{"name": anyText, "window": anyText, "wait_ms": wholeNumber, "flags": flagList}), "limit", "remaining", "retry_after_ms", "wait_ms"),
		"Problem":  closed(problem, "retry_after_seconds"),
		"Batch": closed(object{"results": object{"type": "array", "items": object{"oneOf": []object{
			closed(join(decided, object{"status": object{"const": http.StatusOK}}), absent...), reference("Refusal"), reference("Problem"),
		}}}}),
		"Rules":  closed(object{"version": wholeNumber, "author": anyText, "time": object{"type": "string", "format": "date-time"}, "hash": anyText, "text": anyText}),
		"Health": closed(object{"status": object{"enum": []string{"ok", "ready"}}}),
	}
}

// join returns an object with the members of both objects.
func join(a, b object) object {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

// without returns the names that are not in others, in alphabetical order.
func without(names, others []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(others, name) })
	slices.Sort(names)
	return names
}
