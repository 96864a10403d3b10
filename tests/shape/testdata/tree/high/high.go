// Package high imports a lower package.
package high

import "example.com/tree/low"

// Run runs whatever there is to run.
func Run() { low.Walk() }

func Stop() {}
