// Package corpus has an obedient Reader say what attackers have written, and counts what
// reaches a Controller.
//
//	report, err := corpus.Run(ctx, corpus.Config{State: folder, Attacks: corpus.Injections()})
//
// Strings come from files of benchmarks and red-team tools, recognised by their content
// ([Load]), or are ours ([Injections], [Benign]). Each is said in every position of every
// spec: whole, cut to the limits, divided over the questions of an answer, and divided
// over several answers. What becomes of it is decided by the validator that the gateway
// decides with, and a sample of each kind is said through a running mesh, where it has to
// come out the same.
//
// Counted is what arrives: four words or more of a string, in a value that a Controller
// gets without a person having seen it. The words are counted here, by code that the
// gateway does not have. "Reached" says nothing of what a model would make of it.
//
// [Target] is the same Reader for tools that make their own texts: it takes them by HTTP.
package corpus
