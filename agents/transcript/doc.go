// Package transcript is the log of a model-run agent: its queries, each call
// of its model and tools with the result, and its answers. It is lines of
// JSON, the first of which names the format.
//
// A transcript contains hostile text in cleartext. It contains no creds and no
// keys: the recorded streams have none.
package transcript
