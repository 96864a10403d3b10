// Package deploy tests the ways to install and run the server: the packages, the systemd unit, the container image, the
// compose file and the Helm chart.
//
// The tests with the build tags packages and helm need programs that "make packages-test" and "make helm-test" install.
package deploy
