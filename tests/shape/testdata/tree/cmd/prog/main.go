// Command prog imports one package.
package main

import "example.com/tree/high"

func main() { high.Run() }
