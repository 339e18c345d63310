// Package witness implements both sides of C2SP tlog-witness
// (https://c2sp.org/tlog-witness): it cosigns checkpoints of logs, and asks
// others to cosign them.
//
// A [Witness] remembers the newest checkpoint that it cosigned of each log, and
// cosigns another only with a proof of consistency. So nobody who trusts the
// witness can be shown two histories of one log, or a rolled-back one. It sees
// sizes and hashes, never a decision. [Peer] is a witness that a mesh asks for
// cosignatures.
//
// It works for any log in the C2SP formats.
package witness
