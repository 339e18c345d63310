// Package contract defines the roles of a dual-execution mesh and their
// contracts, and checks whether the roles keep them.
//
// The roles are planner, processor (a Reader), orchestrator (the interpreter inside
// the gateway), tool and user. [Matrix] and [Edges] say what each role sees and
// sends to whom; package definition refuses agents that mix roles.
//
// A [Contract] says what a role does and never does, in the JSON of the draft
// ([Parse]). Each invariant is tested by a [Predicate] from a closed set.
// [Verify] compares a contract with [Facts], and reports the [Level] at which
// each invariant holds.
//
// A [Statement] is what an organisation signs about one of its agents: a
// [Declaration] with evidence, in a DSSE envelope. [JudgeAttestation] decides whether
// an agent of another organisation is accepted.
//
// The package is pure: it has no clock, randomness, network or key. Moments,
// nonces, facts and the signature check are arguments. All input is treated as
// hostile: it is bounded and parsed strictly (PROTOCOL P2.2). Returned values
// share no memory with the input. They are safe for concurrent use as long as
// nobody changes them.
//
// Sources: the draft is draft-nennemann-ai-agent-dual-execution-00.
package contract
