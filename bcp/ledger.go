package bcp

import (
	"errors"
	"reflect"
	"time"
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

// ledgerRecord is a message of the ledger: a line, with lines of its channel from before.
type ledgerRecord struct {
	LedgerLine
	Earlier []LedgerLine `msgpack:"m,omitempty"`
}

// EncodeLedgerLine returns a line's record, with lines of its channel from before, oldest
// first, as member "m". The library writes it so with numbers in their shortest form.
func EncodeLedgerLine(l *LedgerLine, earlier ...LedgerLine) []byte {
	c := recordCoder{b: make([]byte, 0, usualLine*(1+len(earlier)))}
	c.writeMembers(reflect.ValueOf(&ledgerRecord{*l, earlier}).Elem(), ledgerMembers)
	return c.b
}

// DecodeLedgerLines reads a record of the ledger: lines of one channel, oldest first.
func DecodeLedgerLines(b []byte) ([]LedgerLine, error) {
	var r ledgerRecord
	c := recordCoder{b: b}
	c.readMembers(reflect.ValueOf(&r).Elem(), ledgerMembers)
	if c.bad || len(c.b) > 0 {
		return nil, errors.New("decoding a ledger line: not one whole record")
	}
	return append(r.Earlier, r.LedgerLine), nil
}

// DecodeLedgerLine reads a record of the ledger, without lines from before.
func DecodeLedgerLine(b []byte) (LedgerLine, error) {
	lines, err := DecodeLedgerLines(b)
	if err != nil {
		return LedgerLine{}, err
	}
	return lines[len(lines)-1], nil
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
