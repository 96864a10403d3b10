// Package clienttests drives the built server with common clients and tools: go-redis, rueidis,
// redigo, radix, redis-py, redis-cli and redis-benchmark.
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
// Apart from Go the tests require Debian packages:
//
//	apt-get install redis-tools python3-redis
//
// TestRedisson_Java, which "make client-tests-java" runs, also requires a JDK, Maven and Maven
// Central. It has the build tag java.
//
// A missing tool fails its test. GOFLAGS=-race builds the server with the race detector as well.
package clienttests
