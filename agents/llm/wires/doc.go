// Package wires opens connections to models: the APIs of Anthropic (Messages), of OpenAI and everything compatible (Chat
// Completions) and of Google (generateContent), and models for tests and offline work: a script, a replayed transcript,
// and a wholly hijacked model.
//
// The clients are our own: a call is one POST of JSON that follows no
// redirect, uses no proxy and reads nothing from the environment. Replies are
// streamed, so a minute of silence ends a call and a long answer does not;
// endpoints that answer with one document work too. Both directions are
// bounded. Errors have the types of package llm, and contain neither a
// provider's text nor a key. A call is retried only if it failed before any
// part of a reply had arrived.
package wires
