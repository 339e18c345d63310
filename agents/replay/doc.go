// Package replay has transcripts of model-run agents, and what is made of them.
//
// A transcript is the log of an agent: its queries, each call of its model and
// tools with the result, and its answers, as lines of JSON, the first of which
// names the format. [Record] writes all messages to and from a cell (package
// cell), [Recorder] the calls of a model alone. [NewProvider] is the recorded
// model: with it an agent runs again without a key or a network.
//
// A transcript is as hostile as the content that the agent read, and in
// cleartext: a cell treats it like any other content, and callers must make it
// inert before they show it. It contains no creds and no keys: the recorded
// streams have none.
package replay
