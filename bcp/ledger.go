package bcp

import (
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// LedgerLine is one movement of a channel's pool, as the ledger shows it.
// Figures are nano-bits in its records and bits in JSON.
type LedgerLine struct {
	Seq          uint64         `msgpack:"n" json:"seq"`
	Time         time.Time      `msgpack:"t" json:"time"`
	Kind         DecisionKind   `msgpack:"k" json:"kind"`
	Controller   AgentName      `msgpack:"co" json:"controller"`
	Reader       AgentName      `msgpack:"re" json:"reader"`
	Epoch        uint64         `msgpack:"e" json:"epoch"`
	Query        QueryID        `msgpack:"q,omitempty" json:"query_id,omitempty"`
	Subscription SubscriptionID `msgpack:"su,omitempty" json:"subscription_id,omitempty"`
	Category     Category       `msgpack:"ca" json:"category"`
	Nominal      Bits           `msgpack:"bn" json:"nominal_bits"` // reserved by an ask, settled by the rest
	Capacity     Bits           `msgpack:"bc" json:"capacity_bits"`
	Timing       bool           `msgpack:"tm" json:"timing_counted"` // false: "timing: uncounted"
	Exposure     Taint          `msgpack:"ex" json:"exposure,omitzero"`
	Balance      Balance        `msgpack:"b" json:"balance"`
}

// Line returns the ledger's line of a decision, if it moves bits.
func (d *Decision) Line() (LedgerLine, bool) {
	if _, ok := d.Channel(); !ok || d.Repeat || d.Prepaid || d.Unfunded || d.Nominal == 0 && d.Capacity == 0 {
		return LedgerLine{}, false
	}
	return LedgerLine{
		Seq: d.Seq, Time: d.At(), Kind: d.Kind, Controller: d.Controller, Reader: d.Reader, Epoch: d.Epoch, Query: d.Query,
		Subscription: d.Subscription, Category: d.Category, Nominal: d.Nominal, Capacity: d.Capacity, Timing: d.Timing, Exposure: d.Exposure, Balance: d.Balance,
	}, true
}

// EncodeLedgerLine returns the record of a line.
func EncodeLedgerLine(line LedgerLine) ([]byte, error) { return msgpack.Marshal(line) }

// DecodeLedgerLine reads a record of the ledger.
func DecodeLedgerLine(b []byte) (LedgerLine, error) {
	var line LedgerLine
	if err := msgpack.Unmarshal(b, &line); err != nil {
		return LedgerLine{}, fmt.Errorf("decoding a ledger line: %w", err)
	}
	return line, nil
}

// PoolKey names one epoch of a channel.
type PoolKey struct {
	ChannelKey
	Epoch uint64
}

// PoolBalance is what one epoch of a channel holds.
type PoolBalance struct {
	Controller AgentName `json:"controller"`
	Reader     AgentName `json:"reader"`
	Epoch      uint64    `json:"epoch"`
	Balance    Balance   `json:"balance"`
}

// Key returns the epoch's name.
func (p *PoolBalance) Key() PoolKey {
	return PoolKey{ChannelKey{Controller: p.Controller, Reader: p.Reader}, p.Epoch}
}

// Reconciliation is what a recount of the journal found.
type Reconciliation struct {
	Decisions uint64 `json:"decisions"` // of the journal that were counted
	Lines     uint64 `json:"lines"`     // of the ledger that were compared
	Behind    uint64 `json:"behind"`    // decisions that the ledger does not show yet
	// Pools are the epochs of the state, as the journal amounts to them.
	Pools       []PoolBalance `json:"pools"`
	Differences []Difference  `json:"differences"`
	More        uint64        `json:"more_differences,omitzero"` // beyond MaxDifferences
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
