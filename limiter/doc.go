// Package limiter is the vocabulary that the faces and the engines share: what is
// asked ([Request]), what is answered ([Decision]) and who answers ([Engine]).
//
// It holds no state, no text, and no arithmetic but the rounding of times. A face such as the Redis server
// compiles a client's arguments to Requests, hands a batch of them to an Engine
// and turns the Decisions that come back into replies.
//
// A refusal is a Decision with Limited set, never an error. Decision.Err means that
// no decision was made, and then nothing has been charged unless the error says so.
package limiter
