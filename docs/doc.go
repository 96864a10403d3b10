// Package docs contains the documentation, and tests that run its examples.
package docs
