package bcp

import (
	"cmp"
	"encoding/hex"
	"errors"
	"time"
)

// Digest is a SHA-256 sum; its text form is lower-case hexadecimal.
type Digest [32]byte

// MarshalText returns the hexadecimal form, or nothing for the zero digest.
func (d Digest) MarshalText() ([]byte, error) {
	if d == (Digest{}) {
		return nil, nil
	}
	return hex.AppendEncode(nil, d[:]), nil
}

// UnmarshalText reads what MarshalText writes.
func (d *Digest) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*d = Digest{}
		return nil
	}
	if len(b) != hex.EncodedLen(len(d)) {
		return errDigest
	}
	_, err := hex.Decode(d[:], b)
	return err
}

var errDigest = errors.New("a digest is 64 hexadecimal digits")

// Balance is what a channel's pool holds after a decision. All in nano-bits.
type Balance struct {
	Settled          Bits `msgpack:"s" json:"settled_bits"`
	Reserved         Bits `msgpack:"r,omitempty" json:"reserved_bits"`
	Pushed           Bits `msgpack:"p,omitempty" json:"pushed_bits"` // the part of Settled that pushes took
	SettledCapacity  Bits `msgpack:"c,omitempty" json:"settled_capacity_bits"`
	ReservedCapacity Bits `msgpack:"d,omitempty" json:"reserved_capacity_bits"`
	Cat2Queries      int  `msgpack:"q,omitempty" json:"cat2_queries"`
}

// Spent is what counts against budget_bits.
func (b Balance) Spent() Bits { return b.Settled + b.Reserved }

// SpentCapacity is what counts against capacity_budget_bits.
func (b Balance) SpentCapacity() Bits { return b.SettledCapacity + b.ReservedCapacity }

// Decision is one decision of the gateway with everything that it changes. The
// journal holds decisions, hash-chained; [state.State.Apply] of them in order is the
// whole state. Records are MessagePack with these short keys; a field may be
// added, never renamed or given another meaning.
type Decision struct {
	Seq     uint64       `msgpack:"n" json:"seq"`            // 1, 2, 3, … without gaps
	Prev    Digest       `msgpack:"h,omitempty" json:"prev"` // RecordDigest of the one before, zero for the first
	Time    int64        `msgpack:"t" json:"time"`           // journal time, Unix nanoseconds, never going back
	Kind    DecisionKind `msgpack:"k" json:"kind"`
	Context Digest       `msgpack:"x" json:"context"` // digest of definitions, rules, word lists and versions

	Agent      AgentName `msgpack:"a,omitempty" json:"agent,omitempty"` // who caused it
	Role       Role      `msgpack:"ro,omitempty" json:"role,omitzero"`
	Controller AgentName `msgpack:"co,omitempty" json:"controller,omitempty"`
	Reader     AgentName `msgpack:"re,omitempty" json:"reader,omitempty"`

	Session SessionID `msgpack:"se,omitempty" json:"session,omitempty"`
	// SessionBegins says that Session begins here, by an act of its Controller
	// or by a delivery; SessionRenews, that it opens new epochs.
	SessionBegins     bool   `msgpack:"sb,omitempty" json:"session_begins,omitzero"`
	SessionByDelivery bool   `msgpack:"sd,omitempty" json:"session_by_delivery,omitzero"`
	SessionRenews     bool   `msgpack:"sr,omitempty" json:"session_renews,omitzero"`
	SessionEnds       bool   `msgpack:"sx,omitempty" json:"session_ends,omitzero"`
	Epoch             uint64 `msgpack:"e,omitempty" json:"epoch,omitzero"`

	Query        QueryID        `msgpack:"q,omitempty" json:"query_id,omitempty"`
	Subscription SubscriptionID `msgpack:"su,omitempty" json:"subscription_id,omitempty"`
	Delivery     DeliveryID     `msgpack:"d,omitempty" json:"delivery_id,omitempty"`
	Item         ItemID         `msgpack:"i,omitempty" json:"item_id,omitempty"`
	Attempt      int            `msgpack:"at,omitempty" json:"attempt,omitzero"` // of the query's next dispatch
	Category     Category       `msgpack:"ca,omitempty" json:"category,omitzero"`
	Escalation   bool           `msgpack:"es,omitempty" json:"escalation,omitzero"`

	Repeat bool `msgpack:"rp,omitempty" json:"repeat,omitzero"` // its Client was decided before

	Verdict Outcome `msgpack:"v,omitempty" json:"verdict,omitzero"`
	// Unfunded says that an accepted ask reserved nothing, since pushes of this
	// release slot have taken what it needs: it is not sent, and ends at once.
	Unfunded bool `msgpack:"uf,omitempty" json:"unfunded,omitzero"`
	Code     Code `msgpack:"c,omitempty" json:"code,omitempty"` // what the sender heard
	// Field is the field or question of a subscription that was answered wrongly,
	// for a Reason: the operator's word. See [Decision.FieldName].
	Field  string `msgpack:"f,omitempty" json:"field,omitempty"`
	Reason Reason `msgpack:"rs,omitempty" json:"reason,omitzero"`
	// Check is the rule that refused; where it is a budget, Price is what it would
	// have been charged and Lack how much of that was not left.
	Check Check `msgpack:"ck,omitempty" json:"check,omitzero"`
	Price Bits  `msgpack:"pr,omitempty" json:"price_bits,omitzero"`
	Lack  Bits  `msgpack:"lk,omitempty" json:"lacking_bits,omitzero"`
	// Outcome is what the Controller hears in a delivery without a response.
	Outcome   Code     `msgpack:"o,omitempty" json:"outcome,omitempty"`
	Anomalies []string `msgpack:"an,omitempty" json:"anomalies,omitempty"`
	Flagged   bool     `msgpack:"fl,omitempty" json:"flagged,omitzero"` // the delivery carries Anomalies
	Taint     Taint    `msgpack:"ta,omitempty" json:"taint,omitzero"`   // of the delivery, or of the agent

	// Exposure is the greatest taint that the session has met, with this
	// decision (PROTOCOL P8.3).
	Exposure Taint `msgpack:"ex,omitempty" json:"exposure,omitzero"`

	Timing bool `msgpack:"tm,omitempty" json:"timing_counted"` // false: "timing: uncounted"
	// Prepaid says that Nominal and Capacity were charged before, when the item
	// was held: this decision moves no bits.
	Prepaid bool `msgpack:"pp,omitempty" json:"prepaid,omitzero"`
	// Nominal and Capacity are what this decision reserved (an ask) or settled
	// (everything else); Balance is the pool of Epoch afterwards.
	Nominal  Bits    `msgpack:"bn,omitempty" json:"nominal_bits"`
	Capacity Bits    `msgpack:"bc,omitempty" json:"capacity_bits"`
	Balance  Balance `msgpack:"b" json:"balance"`
	// Remaining is what the Controller hears in answer to an accepted ask.
	Remaining Bits `msgpack:"rm,omitempty" json:"remaining_bits,omitzero"`

	Justification string `msgpack:"j,omitempty" json:"justification,omitempty"`
	// JustificationBits bounds what Justification can carry to who reads it.
	JustificationBits Bits  `msgpack:"jb,omitempty" json:"justification_bits,omitzero"`
	Deadline          int64 `msgpack:"dl,omitempty" json:"deadline,omitzero"`   // of the query or the item
	Release           int64 `msgpack:"rl,omitempty" json:"release_at,omitzero"` // of the delivery
	// Slot is the end of the release slot in which bits were moved, and SlotBegan its
	// beginning: the Controller's asks are held to it from there on. They are 0 where
	// the channel has none.
	Slot      int64 `msgpack:"st,omitempty" json:"slot_at,omitzero"`
	SlotBegan int64 `msgpack:"so,omitempty" json:"slot_began_at,omitzero"`
	// IdleTimeout, in a start or a reload, and BudgetWindow, in the first charge of a channel
	// that has another, hold from here on, in nanoseconds. 0 is what held before.
	IdleTimeout  int64 `msgpack:"it,omitempty" json:"idle_timeout,omitzero"`
	BudgetWindow int64 `msgpack:"bw,omitempty" json:"budget_window,omitzero"`

	// Place orders the deliveries of one release slot: 1 is of queries, which go out as
	// they were asked, 2 and on of subscriptions, in the order of their definitions. It
	// is 0 for a channel without slots.
	Place uint64 `msgpack:"op,omitempty" json:"place,omitzero"`
	// Excused says that a refusal does not count against max_refusals.
	Excused bool `msgpack:"xc,omitempty" json:"excused,omitzero"`

	// Private is what agents and people said. It is in a record as Sealed, and
	// the message that the decision is about as SealedRaw: see [Decision.Seal].
	Private   `msgpack:"-" json:"-"`
	Sealed    []byte `msgpack:"sl,omitempty" json:"-"`
	SealedRaw []byte `msgpack:"ra,omitempty" json:"-"`
	// The commitments tell nothing without Salt: RawCommitment is SHA-256(Salt,
	// raw message), PayloadCommitment that of Payload.
	RawCommitment     Digest `msgpack:"rc,omitempty" json:"raw_commitment,omitzero"`
	PayloadCommitment Digest `msgpack:"pc,omitempty" json:"payload_commitment,omitzero"`

	// Event says what happened where Kind leaves it open: which alert, what a
	// person or an operator did, how a process ended, where taint came from,
	// which schedule came up, what the server denied (publish, subscribe, connect).
	// It is one of our words or the operator's.
	Event string `msgpack:"ev,omitempty" json:"event,omitempty"`
	// Rule is why an agent is suspected, and Suspends that it is suspended from here on.
	Rule     SuspectRule `msgpack:"wr,omitempty" json:"rule,omitempty"`
	Suspends bool        `msgpack:"sp,omitempty" json:"suspends,omitzero"`
	// Target is the agent that somebody else's act is about.
	Target AgentName `msgpack:"tg,omitempty" json:"target,omitempty"`
	// Note is an approver's reason, the text of a prompt, or the host of a
	// connection.
	Note string `msgpack:"no,omitempty" json:"note,omitempty"`
	// Notice is the id of a message that is no delivery and waits for its agent
	// all the same: the final result of what was held, or a prompt.
	Notice DeliveryID `msgpack:"nt,omitempty" json:"notice_id,omitempty"`
	// Scheduled is the time of the run that a prompt is for.
	Scheduled int64 `msgpack:"sc,omitempty" json:"scheduled,omitzero"`
	// Changes are the permissions that a reload took and gave, a line each; of a start
	// what [AcceptedLegs] says.
	Changes []string `msgpack:"cg,omitempty" json:"changes,omitempty"`

	// Key is the public nkey of whom the decision is about: who signed an
	// approval, whose connection it was, whose credentials were given or taken.
	// SignedUntil is the end of an approval's validity, and Unsealed says that its
	// key lay open on a disk. Passkey is that which signed it in place of Key, and
	// Synced what its authenticator says of it: see [Assertion.Synced].
	Key         string `msgpack:"ky,omitempty" json:"key,omitempty"`
	SignedUntil int64  `msgpack:"xu,omitempty" json:"signed_until,omitzero"`
	Unsealed    bool   `msgpack:"us,omitempty" json:"unsealed,omitzero"`
	Passkey     Digest `msgpack:"pk,omitempty" json:"passkey,omitzero"`
	Synced      bool   `msgpack:"sy,omitempty" json:"synced,omitzero"`
	// Statement is the SHA-256 of what was signed, if other decisions were signed with it.
	Statement Digest `msgpack:"sm,omitempty" json:"statement,omitzero"`
	// Before ends the days of an erasure, Unix nanoseconds of a midnight in UTC.
	Before int64 `msgpack:"be,omitempty" json:"before,omitzero"`

	// Count is the number of events that a counting record stands for.
	Count int `msgpack:"ct,omitempty" json:"count,omitzero"`
	// Family is what kind of subject a violation was about, in a word of package
	// subjects, or nothing if it is like none. The subject itself is the agent's word:
	// it is kept as a message is, as RawCommitment and SealedRaw.
	Family string `msgpack:"fm,omitempty" json:"family,omitempty"`
	// Versions and Files spell Context out in a start record.
	Versions string `msgpack:"ve,omitempty" json:"versions,omitempty"`
	Files    []File `msgpack:"fi,omitempty" json:"files,omitempty"`

	Truncation *Truncation       `msgpack:"tc,omitempty" json:"truncation,omitempty"`
	Credential *CredentialChange `msgpack:"cr,omitempty" json:"credential,omitempty"`
	Egress     *EgressChange     `msgpack:"eg,omitempty" json:"egress,omitempty"`
	Run        *RunChange        `msgpack:"ru,omitempty" json:"run,omitempty"`
	Declare    *DeclareChange    `msgpack:"de,omitempty" json:"declare,omitempty"`
	Usage      *UsageChange      `msgpack:"ug,omitempty" json:"usage,omitempty"`
	// Endorsed is the endorsement that the decision is about, or that released its answer
	// in place of a person.
	Endorsed *EndorseChange `msgpack:"en,omitempty" json:"endorsed,omitempty"`
}

// Truncation says that the journal may begin with the record of the decision
// that bears it: Seq-1 and Prev are the number and the digest of the decision
// that it then begins after. Where it is only announced, the other fields are zero, and
// a later decision, with the same sequence, has them: what is in front is cut off then.
type Truncation struct {
	Sequence uint64 `msgpack:"s" json:"sequence"` // of the record before, in the stream
	Base     Digest `msgpack:"b" json:"base"`     // SHA-256 of the snapshot that stands for what is cut off
	Backup   Digest `msgpack:"a" json:"backup"`   // SHA-256 of the backup that holds it
	File     string `msgpack:"f" json:"file"`     // the name of the backup, without its folder
}

// ItemID names what waits for a person.
type ItemID string

// Channel returns the channel of the decision, and whether it has one.
func (d *Decision) Channel() (ChannelKey, bool) {
	return ChannelKey{Controller: d.Controller, Reader: d.Reader}, d.Controller != "" && d.Reader != ""
}

// FieldName is the field or question that was answered wrongly: of a query only if the
// decision is opened.
func (d *Decision) FieldName() string { return cmp.Or(d.Field, d.QueryField) }

// At returns the journal time.
func (d *Decision) At() time.Time { return time.Unix(0, d.Time).UTC() }

// Commit returns the salted commitment to b (PROTOCOL P11.5): without the salt
// it does not tell which boolean b was.
func (d *Decision) Commit(b []byte) Digest { return hashParts(d.Salt[:], b) }

// Message returns the delivery that the decision releases, if it does. Of one
// whose answer was erased nothing is left to deliver.
func (d *Decision) Message() (Delivery, bool) {
	if d.Delivery == "" || d.Kind == KindAcknowledge || d.Erased && d.Outcome == "" {
		return Delivery{}, false
	}
	m := Delivery{
		Type: TypeResponseDelivery, DeliveryID: d.Delivery, QueryID: d.Query, SubscriptionID: d.Subscription,
		Category: d.Category, FromAgent: d.Reader, Outcome: d.Outcome, BandwidthBits: d.Nominal, CapacityBits: d.Capacity,
		Taint: d.Taint, ChannelMode: "bcp",
	}
	switch {
	case d.Kind == KindBatch:
		var ok bool
		if m.Batch, ok = d.pushed(); !ok {
			return Delivery{}, false
		}
	case d.Outcome == "":
		m.Response = d.Payload
	case d.Outcome == Held: // what it costs is told with what comes of it
		m.BandwidthBits, m.CapacityBits = 0, 0
	}
	if d.Flagged {
		m.Anomalies = d.Anomalies
	}
	return m, true
}

// Moment is what a decision takes from the world: the time, and randomness for
// whatever it makes. A Moment is used for one decision.
type Moment struct {
	Now time.Time
	// Fresh is at least 96 random bits as letters and digits; queries,
	// deliveries, sessions and items get it after a letter of their own.
	Fresh string
	Salt  [16]byte
}

// Accepted reports whether an ask or a push was not refused.
func (d *Decision) Accepted() bool { return d.Verdict == Accept || d.Verdict == Hold }

// Result is what the Reader of an answer or a push hears of the decision.
func (d *Decision) Result() ValidationResult {
	r := ValidationResult{Type: TypeValidationResult, QueryID: d.Query, SubscriptionID: d.Subscription, Code: d.Code}
	outcome := d.Verdict
	switch {
	case d.Kind == KindExpire, d.Kind == KindApproval && d.Event == string(RejectItem):
		outcome, r.Code = Reject, ApprovalRejected
	}
	switch outcome {
	case Accept:
		r.Success, r.Status = true, StatusDelivered
		if d.Subscription != "" {
			r.Detail = "Published to controller " + string(d.Controller) + " (Cat-" + string('0'+byte(d.Category)) + ", " + d.Nominal.String() + " bits)"
		}
	case Hold:
		r.Status, r.Detail = StatusHeld, "Held for a person"
	default:
		r.Status = StatusRefused
		switch {
		case d.Kind == KindExpire:
			r.Detail = rejectedDetail("no decision in time")
		case d.Kind == KindApproval:
			r.Detail = rejectedDetail(d.Note)
		default:
			r.Detail = ReaderDetail(d.Code, d.Reason, d.FieldName(), d.Subscription, d.Controller)
		}
	}
	return r
}

// In records a digest is 32 bytes and an enumeration is its frozen number; the
// words and hexadecimal digits are for people.

// IsZero reports whether there is no digest.
func (d Digest) IsZero() bool { return d == Digest{} }
