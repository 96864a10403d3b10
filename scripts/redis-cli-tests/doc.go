// Package rediscli contains test scripts for the server in a readable form, in corpus/*.txt, and
// the tests that run them.
//
// Each section of a script runs up to three times:
//
//   - over raw connections to a server inside the test, whose clock the script controls
//   - through redis-cli, with the built program
//   - with a real redis-server, if the replies also apply to Redis; both servers must
//     return the same bytes
//
// README.md describes the format of the scripts.
//
// Scripts in corpus/cluster run with three nodes of the built program. scripts/cluster.sh, which
// "make cluster" runs, is tested here as well.
//
// The tests require redis-cli and redis-server 7.0 and fail without them. They use free ports, or
// their own addresses, on the loopback interface.
package rediscli
