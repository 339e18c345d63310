package status

import (
	"fmt"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Reconciliation is what a recount of the journal found.
type Reconciliation struct {
	Decisions uint64 `json:"decisions"` // of the journal that were counted
	Lines     uint64 `json:"lines"`     // of the ledger that were compared
	Behind    uint64 `json:"behind"`    // decisions that the ledger does not show yet
	// Pools are the epochs of the state, as the journal amounts to them.
	Pools       []bcp.PoolBalance `json:"pools"`
	Differences []Difference      `json:"differences"`
	More        uint64            `json:"more_differences,omitzero"` // beyond MaxDifferences
}

// Difference is one disagreement with the journal's charges.
type Difference struct {
	Where Book   `json:"where"`
	Seq   uint64 `json:"seq,omitzero"` // of the decision
	Text  string `json:"text"`
}

// Book says whose figure it is that differs.
type Book string

// The books that a recount is compared with.
const (
	BookJournal Book = "journal" // the balances that decisions record
	BookLedger  Book = "ledger"  // the projection
	BookState   Book = "state"   // the gateway's
)

// MaxDifferences is how many are told one by one.
const MaxDifferences = 100

// Differ notes a difference.
func (r *Reconciliation) Differ(where Book, seq uint64, format string, args ...any) {
	if len(r.Differences) >= MaxDifferences {
		r.More++
		return
	}
	r.Differences = append(r.Differences, Difference{where, seq, fmt.Sprintf(format, args...)})
}
