// Package cell is the half of a model-run agent that reads hostile text: it puts prompts together, runs the model's tools and
// parses what they bring in. It has one door, two streams to its keeper (package keeper), who has the creds, the keys of
// models, the network and the record. Over the door it is asked queries, deliveries and prompts, as any program that package
// stdio serves, and asks for the methods "configuration", "model", "fetch", "end" and "done", and for those of its role.
//
// Nothing in a cell is trusted: whoever takes it over has what the door gives, which is what the definition allows its
// agent, counted. Each conversation is about one query, prompt, delivery or task and begins with nothing of the others.
package cell
