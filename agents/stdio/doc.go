// Package stdio turns a program in any language into an agent: the program
// reads and writes JSON on its standard streams.
//
// [Program] is the simplest way: a Reader that runs the program once for each
// query. The program gets the query as one line of JSON on stdin and prints
// the answer, one JSON object, on stdout.
//
// [Serve] is a sidecar with all functions of an agent: JSON-RPC 2.0, one
// message per line, over the streams of a long-running program. It serves one
// agent in one role; package bcpmesh of agents/python is built on it.
//
// This side holds the creds and the connection, repeats and reconnects. Neither
// way confines or trusts the program: the gateway judges everything from it
// (PROTOCOL P3).
package stdio
