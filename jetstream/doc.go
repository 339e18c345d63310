// Package jetstream keeps the mesh's history: the journal, which is the truth,
// the keys that it is sealed under, and the projections audit and ledger, which are
// rebuilt from it.
//
// One record of the journal holds one or more decisions, each with everything
// that it changes and the digest of the decision before. The one writer is the
// gateway; [Journal.Append] names the sequence that it expects, so that a
// second writer is fenced. Nothing is released before Append has returned nil,
// and after an error nothing is known: the caller throws its state away and
// opens the journal again.
//
//	journal, err := jetstream.OpenJournal(ctx, js, 0)
//	err = journal.Replay(ctx, func(record []byte) error { … })
//	err = journal.Append(ctx, records)
//
// A projection may be behind the journal, never ahead of it. [Projector.Run]
// tails the journal and needs nobody's help.
package jetstream
