// Package stdio makes an agent of a program in any language that reads and writes
// JSON on its standard streams.
//
// [Program] is the smallest way: a Reader whose queries are each answered by a run of
// its own. The program gets the query as one line of JSON on stdin and prints the
// answer, one JSON object, on stdout.
//
// [Serve] is the whole of an agent, as a sidecar: JSON-RPC 2.0, a message a line, over
// the streams of a program that runs for as long as the agent does. It speaks for one
// agent in one role; package bcpmesh of agents/python is built on it.
//
// The creds, the connection, repeats and reconnects are this side's. Neither way
// confines the program or believes it: whatever it says is judged by the gateway
// (PROTOCOL P3).
package stdio
