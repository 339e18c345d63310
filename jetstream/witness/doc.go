// Package witness asks witnesses of logs to cosign checkpoints (C2SP tlog-witness,
// https://c2sp.org/tlog-witness).
//
// A witness, which somebody else runs, cosigns a checkpoint only with a proof that it
// continues the newest one that it has cosigned of that log. So nobody who trusts it can
// be shown two histories of one log, or a rolled-back one. It sees sizes and hashes, never
// a decision.
package witness
