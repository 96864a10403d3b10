// Package clienttests drives the built server with common clients and tools.
//
// TestMatrix runs the clients of the table of drivers: with a standalone server and with each port of
// a cluster, with all versions of the protocol, with logins and TLS, and through faults. By default it
// runs the clients that are Debian packages; the option -matrix selects others. TestTools does the
// same with redis-cli, redis-benchmark and redis_exporter, and TestQuickStarts runs the programs of
// examples/clients. "make clients" runs all of them and writes the results to docs/clients.md.
//
// The other tests use go-redis, rueidis, redigo, radix, redis-py and the tools in more detail.
//
// TestFailover and the tests of ports and forwarding use a cluster of three nodes, each on its own
// loopback address. Clients of all kinds must continue when the leader is killed or stopped, and
// when it transfers its leadership.
//
// The tests build the program from the repository that contains this folder, start it on a
// free port and stop it with SIGTERM. The program must exit with code 0, and its log must have no
// unexpected line. The folder is a separate module, so that the server does not depend on
// client libraries.
//
// Apart from Go the tests require clients that a script installs:
//
//	scripts/install-clients.sh debian node
//
// TestRedisson_Java, which "make client-tests-java" runs, also requires a JDK, Maven and Maven
// Central. It has the build tag java.
//
// A missing tool fails its test. GOFLAGS=-race builds the server with the race detector as well.
package clienttests
