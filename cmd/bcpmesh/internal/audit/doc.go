// Package audit has the commands that look back. They read the record of decisions: tail, replay,
// verify, export, prove, checkpoint, redecide, erase, and explain; and the spending of channels:
// ledger. What agents said is shown inert, and only when asked for.
package audit
