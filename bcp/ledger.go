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
	c := recordCoder{b: make([]byte, 0, usualLine*(1+len(earlier))), writes: true}
	for m := c.open(); c.walk(&m); {
		l.members(&c)
		recordList(&c, "m", &earlier, (*LedgerLine).members)
	}
	return c.b
}

// members are written alone: the library reads them.
func (l *LedgerLine) members(c *recordCoder) {
	recordInt(c.required(), "n", &l.Seq)
	c.begin("t")
	c.writeTime(l.Time)
	recordInt(c.required(), "k", &l.Kind)
	recordText(c.required(), "co", &l.Controller)
	recordText(c.required(), "re", &l.Reader)
	recordInt(c.required(), "e", &l.Epoch)
	recordText(c, "q", &l.Query)
	recordText(c, "su", &l.Subscription)
	recordInt(c.required(), "ca", &l.Category)
	recordInt(c.required(), "bn", &l.Nominal)
	recordInt(c.required(), "bc", &l.Capacity)
	c.required().flag("tm", &l.Timing)
	recordInt(c.required(), "ex", &l.Exposure)
	l.Balance.member(c, "b")
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
