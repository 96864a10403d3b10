// Package schema checks the JSON Schema of rules files with an independent validator.
package schema
