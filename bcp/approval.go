package bcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Act is what an approver does about an item (PROTOCOL P7.3). The zero value
// is none.
type Act string

// The acts.
const (
	Approve    Act = "approve"
	RejectItem Act = "reject"
	EditItem   Act = "edit"
)

// ItemKind says what of an item a person judges.
type ItemKind string

// The kinds of items.
const (
	ItemEscalation ItemKind = "escalation" // whether a category 3 query is asked at all
	ItemSummary    ItemKind = "summary"    // the content of a category 3 answer
	ItemProposal   ItemKind = "proposal"   // a subscription that a Controller wants
	ItemAnomaly    ItemKind = "anomaly"    // an answer of category 1 or 2 that the rules object to
	ItemHanded     ItemKind = "handed"     // a sealed value that a Controller hands on to a person
	ItemEffect     ItemKind = "effect"     // a call of a run that a rule asks about
	ItemInDoubt    ItemKind = "in_doubt"   // a call of a run that may have been made
	ItemQuestion   ItemKind = "question"   // what a run asks its requester
)

// maxReasonChars bounds the reason of a rejection, in code points.
const MaxReasonChars = 500

// Approval is an approver's message about one item, in JSON.
type Approval struct {
	Item ItemID `json:"item_id"`
	// SHA256 is of the exact bytes that the act is about: those that approving
	// releases, those that an edit releases in their place, the reason of a
	// rejection. Swapped content is found by it.
	SHA256 Digest `json:"sha256,omitzero"`
	// Expires ends the signature's validity: not after the item's deadline.
	Expires time.Time `json:"expires,omitzero"`
	// Reason of a rejection is told to the Reader whose answer it was, and to
	// nobody else but the audit.
	Reason string `json:"reason,omitempty"`
	// Response is what an edit delivers, in the shape of an answer. Without a
	// signature it is only looked at: see [EditPreview].
	Response jsontext.Value `json:"response,omitzero"`
	// Batch has the other decisions that the signature is of; empty if it is of this one
	// alone.
	Batch Batch `json:"batch,omitempty"`
	// Signature is of [Statement], or of the statement of Batch, by the approver's user
	// nkey, in base64.
	Signature string `json:"signature,omitempty"`
	// Passkey is in place of Signature where the approver's creds are bound to one.
	Passkey *Assertion `json:"passkey,omitempty"`
}

// Assertion is a signature by a passkey (WebAuthn), whose challenge is SHA-256 of what
// is signed. But for RPID, its parts are in base64url without padding.
type Assertion struct {
	RPID              string `json:"rp_id"`      // the host of the pages that it is for
	PublicKey         string `json:"public_key"` // SubjectPublicKeyInfo in DER
	AuthenticatorData string `json:"authenticator_data"`
	ClientData        string `json:"client_data"`
	Signature         string `json:"signature"`
}

// Synced reports whether the authenticator says that the passkey is on other devices
// too, or in an account.
func (a *Assertion) Synced() bool {
	b, err := base64.RawURLEncoding.DecodeString(a.AuthenticatorData)
	return err == nil && len(b) > 32 && b[32]&(1<<4) != 0
}

// PasskeyTag begins the tag of creds that are bound to a passkey; its hash follows, in
// hex. One passkey alone.
const PasskeyTag = "passkey:"

// Sender is whose credentials an approval was sent with, as the server says.
type Sender struct {
	Key     string // the public nkey
	Passkey Digest // that they are bound to: no other signature counts. Zero: none
}

// Decided answers an approval that counted.
type Decided struct {
	Item ItemID `json:"item_id"`
	Act  Act    `json:"decision"`
}

// EditPreview answers an edit that bears no signature: what it would release.
type EditPreview struct {
	Item      ItemID         `json:"item_id"`
	Content   jsontext.Value `json:"content"` // in its one spelling
	SHA256    Digest         `json:"sha256"`  // of Content
	Anomalies []string       `json:"anomalies,omitempty"`
}

// Statement is the text that an approver signs. It names the item, the act, the
// bytes and the end of its validity, so that it fits nothing else.
func Statement(item ItemID, act Act, digest Digest, expires time.Time) []byte {
	return []byte("bcpmesh approval 1\nitem " + string(item) + "\ndecision " + string(act) +
		"\nsha256 " + hex.EncodeToString(digest[:]) + "\nexpires " + strconv.FormatInt(expires.Unix(), 10) + "\n")
}

// MaxBatch is how many decisions one signature may be of.
const MaxBatch = 64

// Batch makes a signature one of several decisions (PROTOCOL P7.7). It is the salt of this
// one, of [BatchSalt] random bytes, and then the leaves of the others ([Leaf]), in
// ascending order.
type Batch []byte

// BatchSalt is how long a salt is, in bytes. Without one a leaf would tell, of content that
// was erased since, which of few values it was.
const BatchSalt = 32

// Signed returns what is signed by who sends the approval; see [Batch.Signed].
func (a *Approval) Signed(act Act) ([]byte, bool) {
	return a.Batch.Signed(Statement(a.Item, act, a.SHA256, a.Expires))
}

// Leaf is what one decision is in the statement of a batch: SHA-256 of its own statement
// and a salt.
func Leaf(statement, salt []byte) Digest {
	return sha256.Sum256([]byte(string(statement) + "salt " + hex.EncodeToString(salt) + "\n"))
}

// NewBatches returns the batches of 2 to [MaxBatch] decisions that are signed together,
// given their statements and salts, each of [BatchSalt] bytes.
func NewBatches(statements, salts [][]byte) []Batch {
	leaves := make([]Digest, len(statements))
	for i := range statements {
		leaves[i] = Leaf(statements[i], salts[i])
	}
	ascending := slices.SortedFunc(slices.Values(leaves), compareDigests)
	batches := make([]Batch, len(statements))
	for i := range batches {
		batches[i] = slices.Clone(salts[i])
		for _, leaf := range ascending {
			if leaf != leaves[i] {
				batches[i] = append(batches[i], leaf[:]...)
			}
		}
	}
	return batches
}

// Signed returns what is signed by whose decision has this statement: the statement, or the
// leaves of the whole batch. It is false if that is no batch.
func (b Batch) Signed(statement []byte) ([]byte, bool) {
	if len(b) == 0 {
		return statement, true
	}
	const size = len(Digest{})
	if len(b)%size != 0 || len(b) < BatchSalt+size || len(b) > BatchSalt+(MaxBatch-1)*size {
		return nil, false
	}
	var leaves []Digest
	for leaf := range slices.Chunk(b[BatchSalt:], size) {
		leaves = append(leaves, Digest(leaf))
	}
	own := Leaf(statement, b[:BatchSalt])
	at, twice := slices.BinarySearchFunc(leaves, own, compareDigests)
	if leaves = slices.Insert(leaves, at, own); twice {
		return nil, false
	}
	text := []byte("bcpmesh approvals 1\n")
	for i := range leaves {
		if i > 0 && compareDigests(leaves[i-1], leaves[i]) >= 0 {
			return nil, false
		}
		text = append(hex.AppendEncode(text, leaves[i][:]), '\n')
	}
	return text, true
}

func compareDigests(a, b Digest) int { return bytes.Compare(a[:], b[:]) }

// Verifier checks a signature by a public nkey. It must not panic.
type Verifier func(key string, statement, signature []byte) bool

// PasskeyVerifier checks a signature by the passkey of a hash. It must not panic.
type PasskeyVerifier func(passkey Digest, a *Assertion, statement []byte) bool

// ParseApproval reads an approver's message. The code is empty or malformed.
func ParseApproval(b []byte) (Approval, Code) {
	a, code := parseJSON(b, MaxControllerMessage, func(a *Approval) bool {
		return isToken(string(a.Item), true) && utf8.RuneCountInString(a.Reason) <= MaxReasonChars && strings.IndexFunc(a.Reason, invisible) < 0
	})
	if code != "" {
		code = Malformed // also of one that is too large
	}
	return a, code
}

// invisible reports whether a person would not see r, or not where it is.
func invisible(r rune) bool {
	return r != ' ' && (!unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zs, r))
}

// ItemView is an item as its approver judges it: the content alone, and what
// the mesh knows about it (PROTOCOL P7.1, P7.2).
type ItemView struct {
	Item
	Source Source `json:"source"`
	// Spec is what was asked, or what the subscription asks for.
	Spec Spec `json:"spec,omitzero"`
	// Justification is the Controller's own reason for an escalation.
	Justification string `json:"justification,omitempty"`
	// JustificationBits bounds what it can carry, whoever chose its words.
	JustificationBits Bits `json:"justification_bits,omitzero"`
	// Content is the canonical answer; an escalation has none yet.
	Content jsontext.Value `json:"content,omitzero"`
	// Sealed is the value that Content is the handle of, where a Controller hands one on.
	Sealed string `json:"sealed,omitempty"`
	// SHA256 is of the exact bytes that approving releases: Content, or the
	// query that an escalation sends.
	SHA256 Digest `json:"sha256"`
	// Earlier are the last deliveries of the Controller's session, oldest first:
	// an instruction may come in parts.
	Earlier []Release `json:"earlier,omitempty"`
	// Effect is the call that an item of a run is about; Content then holds its
	// arguments.
	Effect *Effect `json:"effect,omitempty"`
	// Endorse says how much this person may endorse of what is like it; nil: nothing.
	Endorse *EndorseLimit `json:"endorse,omitempty"`
}

// Source tells where content comes from, by the operator's definitions.
type Source struct {
	Agent       AgentName `json:"agent"`
	Description string    `json:"description,omitempty"`
	Network     string    `json:"network,omitempty"`
	Tools       []string  `json:"tools,omitempty"`
	Taint       Taint     `json:"taint"` // its own, before it is stepped down
}

// Release is a delivery of a session.
type Release struct {
	Reader       AgentName      `json:"reader"`
	Query        QueryID        `json:"query_id,omitempty"`
	Subscription SubscriptionID `json:"subscription_id,omitempty"`
	Category     Category       `json:"category"`
	Outcome      Code           `json:"outcome,omitempty"`
	Content      jsontext.Value `msgpack:"-" json:"content,omitzero"`
	Nominal      Bits           `json:"nominal_bits"`
	Time         time.Time      `json:"time"`
}

// ChannelItemKinds returns the kinds of items that belong to a channel.
func ChannelItemKinds() []ItemKind {
	return []ItemKind{ItemEscalation, ItemSummary, ItemAnomaly, ItemProposal, ItemHanded}
}

// RunItemKinds returns the kinds of items that belong to a run of a kernel.
func RunItemKinds() []ItemKind { return []ItemKind{ItemEffect, ItemInDoubt, ItemQuestion} }

// Item is what waits for a person (PROTOCOL P7.1).
type Item struct {
	ID           ItemID         `msgpack:"-" json:"item_id"`
	Kind         ItemKind       `json:"kind"`
	Controller   AgentName      `json:"controller"`
	Reader       AgentName      `json:"reader"`
	Query        QueryID        `json:"query_id,omitempty"`
	Subscription SubscriptionID `msgpack:"-" json:"subscription_id,omitempty"`
	Category     Category       `json:"category,omitzero"`
	Anomalies    []string       `json:"anomalies,omitempty"`
	Taint        Taint          `json:"taint"`
	Nominal      Bits           `json:"nominal_bits"`
	Capacity     Bits           `json:"capacity_bits"`
	Since        time.Time      `json:"since"`
	Deadline     time.Time      `json:"deadline"`
}

func (it *Item) Channel() ChannelKey { return ChannelKey{Controller: it.Controller, Reader: it.Reader} }
