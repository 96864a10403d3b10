// Package openapi checks the OpenAPI document of the HTTP server, and its responses, with a validator that is independent
// of the code under test.
package openapi
