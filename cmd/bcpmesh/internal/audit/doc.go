// Package audit has the commands that look back. They read the record of decisions: audit, replay,
// verify, export, key, redecide, tighten, erase, and explain; and the spending of channels:
// ledger. What agents said is shown inert, and only when asked for.
package audit
