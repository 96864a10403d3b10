// Package clienttests drives the built server with the clients and tools that people
// use: go-redis, rueidis, redigo, radix, redis-py, redis-cli and redis-benchmark.
//
// TestFailover and those of ports and forwarding do so with three nodes that are a cluster, each on a
// loopback address of its own: clients of all kinds go on when the leader is killed, stopped, or asked
// to hand over.
//
// The tests build the program from the repository that this folder lies in, start it
// on a free port and stop it by SIGTERM, which must end it with exit code 0 and without
// any line in its log that the test does not expect. The folder is a module of its own,
// so that the server does not depend on its clients.
//
// What the tests need besides Go comes from Debian:
//
//	apt-get install redis-tools python3-redis
//
// TestRedisson_Java, which "make client-tests-java" runs, needs a JDK, Maven and Maven Central besides. It
// has a build tag of its own, java.
//
// A missing tool fails its test. GOFLAGS=-race builds the server with the race detector
// too.
package clienttests
