// Package audit has the commands that read the record of decisions: tail, replay,
// verify, export, prove, checkpoint, redecide, erase, and explain. What agents said
// is shown inert, and only when asked for.
package audit
