// Package contract says what the roles of a dual-execution mesh are, what each of
// them promises, and whether it keeps its promises.
//
// The roles are planner, processor (a Reader), orchestrator (the interpreter inside
// the gateway), tool and user. [Matrix] and [Edges] say what each role sees and whom
// it speaks to. [CheckAgents] refuses definitions that mix roles.
//
// A [Contract] says what a role does and never does, in the JSON of the draft
// ([Parse]). Each of its invariants counts through a [Predicate] of a closed set.
// [Verify] compares a contract with [Facts], and reports at which [Level] each
// invariant is held.
//
// A [Statement] is what an organisation signs about one of its agents: a
// [Declaration] with evidence, in a DSSE envelope. [JudgeAttestation] decides whether
// an agent of another organisation is accepted.
//
// The package decides and has no effects: no clock, randomness, network or key.
// Moments, nonces, facts and the check of a signature are arguments. Everything that
// it reads is taken for hostile: it is bounded, and read strictly (PROTOCOL P2.2).
// Returned values share no memory with the input. They are safe for concurrent use
// as long as nobody changes them.
//
// Sources: the draft is draft-nennemann-ai-agent-dual-execution-00.
package contract
