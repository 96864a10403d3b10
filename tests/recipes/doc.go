// Package recipes tests the recipes for web frameworks in examples/, with the real frameworks and the real server.
//
// Each test runs the files of an example as they are, in a copy of its folder. Express and FastAPI are installed from
// package-lock.json and requirements.txt into the user's cache directory, once for each version of these files. The tests
// of the other frameworks have the build tag frameworks; "make recipes" installs their dependencies.
package recipes
