// Package verify checks an export of the audit offline, with the mesh's public
// key and nothing else: no server, no state folder, and no code of the writer.
// The format is docs/audit-format.md.
//
//	summary, err := verify.File(f, verify.Options{Keys: []string{key}})
//
// A nil error means: these are the decisions that the key's owner signed, from
// the first to the last, without a gap. It does not mean that the owner has
// signed no other history: compare checkpoints of different days and places
// for that (Options.Since).
//
// The package has no effects: it reads its input and computes.
package verify
