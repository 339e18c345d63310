// Package wires opens ways to models: the wires of Anthropic (Messages), of OpenAI and everything compatible (Chat
// Completions) and of Google (generateContent), and a scripted model for tests and for work without a network.
//
// The wires are our own: a call is one POST of JSON, bounded in both directions, that follows no redirect, uses no proxy
// and reads nothing from the environment. Errors are the types of package llm, hold no text of a provider and no key.
package wires
