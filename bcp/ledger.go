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

// usualLine is the room that most lines need, in bytes.
const usualLine = 160

// EncodeLedgerLine returns a line's record, with lines of its channel from before, oldest
// first, as member "m". The library writes it so with numbers in their shortest form.
func EncodeLedgerLine(l *LedgerLine, earlier ...LedgerLine) []byte {
	w := recordWriter{b: make([]byte, 0, usualLine*(1+len(earlier)))}
	w.ledgerLine(l, earlier)
	return w.b
}

func (w *recordWriter) ledgerLine(l *LedgerLine, earlier []LedgerLine) {
	at, members := w.open()
	w.key("n")
	w.putUint(l.Seq)
	w.key("t")
	w.putTime(l.Time)
	w.key("k")
	w.putInt(int64(l.Kind))
	w.key("co")
	w.putText(string(l.Controller))
	w.key("re")
	w.putText(string(l.Reader))
	w.key("e")
	w.putUint(l.Epoch)
	writeText(w, "q", l.Query)
	writeText(w, "su", l.Subscription)
	w.key("ca")
	w.putInt(int64(l.Category))
	w.key("bn")
	w.putInt(int64(l.Nominal))
	w.key("bc")
	w.putInt(int64(l.Capacity))
	w.key("tm")
	timing := byte(0xc2)
	if l.Timing {
		timing = 0xc3
	}
	w.b = append(w.b, timing)
	w.key("ex")
	w.putInt(int64(l.Exposure))
	w.key("b")
	inner, outer := w.open()
	w.balance(&l.Balance)
	w.close(inner, outer)
	if len(earlier) > 0 {
		w.key("m")
		w.putLength(0x90, 0xdc, len(earlier))
		for i := range earlier {
			w.ledgerLine(&earlier[i], nil)
		}
	}
	w.close(at, members)
}

// DecodeLedgerLine reads a record of the ledger, without lines from before.
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
