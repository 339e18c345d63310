// Package wires opens ways to models: the wires of Anthropic (Messages), of OpenAI and everything compatible (Chat
// Completions) and of Google (generateContent), and models for tests and for work without a network: a script, a transcript
// that is replayed, and a model that is wholly hijacked.
//
// The wires are our own: a call is one POST of JSON that follows no redirect, uses no proxy and reads nothing from the
// environment. Replies are streamed, so that a minute of silence ends a call and a long answer does not; an endpoint that
// answers with one document is understood, too. Both directions are bounded. Errors are the types of package llm, and hold
// no text of a provider and no key. Only what failed before anything of a reply had come is worth another try.
package wires
