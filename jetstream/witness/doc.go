// Package witness cosigns checkpoints of logs, and asks others to: both sides of C2SP
// tlog-witness (https://c2sp.org/tlog-witness).
//
// A [Witness] remembers for each log the newest checkpoint that it cosigned, and cosigns
// another one only with a proof that it continues that. So nobody who trusts the witness
// can be shown two histories of one log, nor one that was set back. It sees sizes and
// hashes, never a decision. [Peer] is a witness that a mesh asks.
//
// It knows nothing of a mesh: any log of the C2SP formats can be witnessed.
package witness
