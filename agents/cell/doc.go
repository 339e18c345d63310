// Package cell is the half of a model-run agent that reads hostile text: it builds prompts, runs the model's tools
// (those of files are here) and parses their results. Its only connections are two streams to its keeper (package
// keeper), which has the creds, the model API keys, the network and the transcript. Over them it receives queries,
// deliveries and prompts, as any program that package stdio serves, and calls the methods "configuration", "model",
// "fetch", "end" and "done", and those of its role.
//
// A cell is not trusted: an attacker who takes it over can only use these
// streams, which allow what the agent's definition allows, and count it. Each
// conversation is about one query, prompt, delivery or task, and shares nothing
// with others.
package cell
