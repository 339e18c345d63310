// Package jetstream keeps the mesh's history: the journal, which is the source
// of truth, the keys that seal it, and the projections audit and ledger, which
// are rebuilt from it.
//
// A journal record holds one or more decisions, each with everything that it
// changes and the digest of the decision before. Only the gateway writes;
// [Journal.Append] names the expected sequence, so a second writer is fenced
// off. Nothing is released before Append has returned nil. After an error the
// record may or may not be stored: the caller discards its state and opens the
// journal again.
//
//	journal, err := jetstream.OpenJournal(ctx, js)
//	err = journal.Replay(ctx, func(record []byte) error { … })
//	err = journal.Append(ctx, records)
//
// A projection may lag behind the journal, but is never ahead of it.
// [Projector.Run] follows the journal by itself.
package jetstream
