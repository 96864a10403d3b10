// Package metrics checks the files in deploy/ against the metrics of real servers: each metric, label and value in a query
// must exist.
package metrics
