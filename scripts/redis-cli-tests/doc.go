// Package rediscli holds conversations with the server that anybody can read, in
// corpus/*.txt, and the tests that hold them.
//
// Each conversation is held up to three times: by raw sockets with a server inside the
// test, whose clock the conversation moves; through redis-cli with the program as it is
// built; and, where it says nothing that is not true of Redis as well, with a real
// redis-server, byte for byte. README.md describes the form of the conversations.
//
// Those in corpus/cluster are held with three nodes of the program as it is built. What "make cluster"
// runs, scripts/cluster.sh, is tried here as well.
//
// The tests need redis-cli and redis-server 7.0 and fail without them. They take their
// own free ports, or addresses, on the loopback interface.
package rediscli
