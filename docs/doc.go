// Package docs is the documentation, and the test that plays its examples.
package docs
