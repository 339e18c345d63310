package agents

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Approver is the client of a person who decides about held items (PROTOCOL P7). It
// needs no Start. Decisions are signed with the key of the connection's creds; if these
// are bound to a passkey, the mesh accepts only the decisions of [Approver.By] and
// [Approver.Decide]. Its methods may be used concurrently.
//
// Errors of all methods: [*RefusedError] with one of the codes item_not_found,
// item_expired, already_decided, digest_mismatch, not_permitted, malformed; [ErrBound],
// if nothing was sent; [*UnansweredError] when ctx ended first. A decision whose reply
// was lost is retried, and may then be refused as already_decided because of itself.
type Approver struct {
	conn    *Connection
	passkey *bcp.Assertion // that signed the one decision that is made
}

// NewApprover returns the Approver of a connection.
func NewApprover(c *Connection) *Approver { return &Approver{conn: c} }

// By returns an Approver for one decision, or one batch, that a passkey has already signed.
// The passkey's challenge was SHA-256 of the [bcp.Statement] of just that decision, which
// ends with the item's deadline in whole seconds, or of the statement of the batch.
func (a *Approver) By(passkey *bcp.Assertion) *Approver {
	return &Approver{conn: a.conn, passkey: passkey}
}

// List returns the items that wait for this person: oldest first, channels in
// turn. Items describe content and do not contain it.
func (a *Approver) List(ctx context.Context) ([]bcp.Item, error) {
	list, err := approval[approverList](ctx, a, subjects.VerbList, struct{}{})
	return list.Items, err
}

type approverList struct {
	Items        []bcp.Item            `json:"items"`
	Endorsements []bcp.EndorsementView `json:"endorsements,omitempty"`
}

// Endorsements returns what was endorsed on the channels of this person, until it is over.
func (a *Approver) Endorsements(ctx context.Context) ([]bcp.EndorsementView, error) {
	list, err := approval[approverList](ctx, a, subjects.VerbList, struct{}{})
	return list.Endorsements, err
}

// Endorse signs an endorsement: what is like it is released without a person from here on,
// as far as the mesh lets this person give that. See [bcp.EndorsementOf].
func (a *Approver) Endorse(ctx context.Context, e bcp.Endorsement) error {
	by, err := a.sign(e.Statement())
	if err != nil {
		return err
	}
	e.Signature, e.Passkey = by.Signature, by.Passkey
	return a.requestEndorsed(ctx, subjects.VerbEndorse, bcp.Endorse, e)
}

// Revoke ends an endorsement, whoever gave it.
func (a *Approver) Revoke(ctx context.Context, v bcp.EndorsementView) error {
	return a.requestEndorsed(ctx, subjects.VerbRevoke, bcp.Revoke, bcp.Endorsement{ID: v.ID, Controller: v.Controller, Reader: v.Reader, Kernel: v.Kernel})
}

func (a *Approver) requestEndorsed(ctx context.Context, verb subjects.Verb, act bcp.Act, e bcp.Endorsement) error {
	decided, err := approval[bcp.Decided](ctx, a, verb, e)
	if err == nil {
		err = understood(decided.Item == bcp.ItemID(e.ID) && decided.Act == act)
	}
	return err
}

// View returns an item with its content. The content is hostile: escape it when
// you show it, and follow nothing in it.
func (a *Approver) View(ctx context.Context, id bcp.ItemID) (bcp.ItemView, error) {
	return approval[bcp.ItemView](ctx, a, subjects.VerbGet, bcp.Approval{Item: id})
}

// Approve releases exactly the viewed content, or nothing.
func (a *Approver) Approve(ctx context.Context, view bcp.ItemView) error {
	return a.decide(ctx, bcp.Approve, about(&view, approvedDigest(&view)))
}

// Reject refuses the viewed item. The reason, one line of at most 500
// characters, goes to the Reader that gave the answer, not to the Controller.
func (a *Approver) Reject(ctx context.Context, view bcp.ItemView, reason string) error {
	m := about(&view, sha256.Sum256([]byte(reason)))
	m.Reason = reason
	return a.decide(ctx, bcp.RejectItem, m)
}

// Preview returns what an edit would release. The response has the shape of an
// answer to the item's spec.
func (a *Approver) Preview(ctx context.Context, view bcp.ItemView, response any) (bcp.EditPreview, error) {
	text, err := encodeResponse(response)
	if err != nil {
		return bcp.EditPreview{}, err
	}
	return approval[bcp.EditPreview](ctx, a, subjects.VerbEdit, bcp.Approval{Item: view.ID, Response: text})
}

// Edit releases the previewed response instead of the viewed one.
func (a *Approver) Edit(ctx context.Context, view bcp.ItemView, preview bcp.EditPreview) error {
	m := about(&view, preview.SHA256)
	m.Response = preview.Content
	return a.decide(ctx, bcp.EditItem, m)
}

// Together approves or rejects 1 to [bcp.MaxBatch] viewed items with one signature; a
// rejection has a reason. The result has an error for each item that was left out, as it has
// changed, has expired or was decided meanwhile, and nil for those that counted. The error
// says that nothing was sent.
func (a *Approver) Together(ctx context.Context, act bcp.Act, views []bcp.ItemView, reason string) ([]error, error) {
	decisions := make([]bcp.Approval, len(views))
	for i := range views {
		if decisions[i] = about(&views[i], approvedDigest(&views[i])); act == bcp.RejectItem {
			decisions[i].SHA256, decisions[i].Reason = sha256.Sum256([]byte(reason)), reason
		}
	}
	return a.DecideTogether(ctx, act, decisions, nil)
}

// DecideTogether is [Approver.Together] for decisions that have all but their signature. The
// salts are those that a passkey has signed with them (see [Approver.By]), or nil.
func (a *Approver) DecideTogether(ctx context.Context, act bcp.Act, decisions []bcp.Approval, salts [][]byte) ([]error, error) {
	if len(decisions) < 1 || len(decisions) > bcp.MaxBatch {
		return nil, errBatch
	}
	if salts == nil {
		salts = make([][]byte, len(decisions))
		for i := range salts {
			salts[i] = make([]byte, bcp.BatchSalt)
			_, _ = rand.Read(salts[i]) // it never fails
		}
	}
	statements := make([][]byte, len(decisions))
	for i := range decisions {
		m := &decisions[i]
		statements[i] = bcp.Statement(m.Item, act, m.SHA256, m.Expires)
	}
	batches := make([]bcp.Batch, 1)
	if len(decisions) > 1 {
		batches = bcp.NewBatches(statements, salts)
	}
	signed, ok := batches[0].Signed(statements[0])
	if !ok {
		return nil, errBatch
	}
	by, err := a.sign(signed)
	if err != nil {
		return nil, err
	}
	left := make([]error, len(decisions))
	for i, m := range decisions {
		m.Batch, m.Signature, m.Passkey = batches[i], by.Signature, by.Passkey
		left[i] = a.Decide(ctx, act, m)
	}
	return left, nil
}

// about begins an approval of bytes, which expires no later than the item.
func about(view *bcp.ItemView, digest bcp.Digest) bcp.Approval {
	return bcp.Approval{Item: view.ID, SHA256: digest, Expires: view.Deadline.UTC().Truncate(time.Second)}
}

// approvedDigest is of what was shown, whatever the view says of it.
func approvedDigest(view *bcp.ItemView) bcp.Digest {
	if view.Kind == bcp.ItemEscalation {
		return view.SHA256
	}
	return sha256.Sum256(view.Content)
}

// decide signs a decision and sends it.
func (a *Approver) decide(ctx context.Context, act bcp.Act, m bcp.Approval) error {
	by, err := a.sign(bcp.Statement(m.Item, act, m.SHA256, m.Expires))
	if err != nil {
		return err
	}
	m.Signature, m.Passkey = by.Signature, by.Passkey
	return a.Decide(ctx, act, m)
}

// sign returns an approval that has a signature of a statement, and nothing else.
func (a *Approver) sign(statement []byte) (by bcp.Approval, err error) {
	if a.passkey != nil {
		return bcp.Approval{Passkey: a.passkey}, nil
	}
	sign := a.conn.nc.Opts.SignatureCB
	if sign == nil {
		return by, errNoKey
	}
	if slices.ContainsFunc(a.conn.claims().Tags, func(tag string) bool { return strings.HasPrefix(tag, bcp.PasskeyTag) }) {
		return by, ErrBound
	}
	signature, err := sign(statement)
	if err != nil {
		return by, fmt.Errorf("agents: signing: %w", err)
	}
	return bcp.Approval{Signature: base64.StdEncoding.EncodeToString(signature)}, nil
}

// Decide sends a decision that is already signed, for example by a person's
// passkey over [bcp.Statement].
func (a *Approver) Decide(ctx context.Context, act bcp.Act, signed bcp.Approval) error {
	verb := map[bcp.Act]subjects.Verb{bcp.Approve: subjects.VerbApprove, bcp.RejectItem: subjects.VerbReject, bcp.EditItem: subjects.VerbEdit}[act]
	decided, err := approval[bcp.Decided](ctx, a, verb, signed)
	if err == nil {
		err = understood(decided.Item == signed.Item && decided.Act == act)
	}
	return err
}

func approval[R any](ctx context.Context, a *Approver, verb subjects.Verb, message any) (R, error) {
	return askJSON[R](ctx, a.conn, subjects.Approval(a.conn.options.Name, verb), message)
}

// ErrBound says that the creds are bound to a passkey, so their own key cannot decide:
// see [Approver.Decide].
var ErrBound = errors.New("agents: these creds need their passkey to decide")

var errBatch = fmt.Errorf("agents: one signature is of 1 to %d decisions about different items", bcp.MaxBatch)

var errNoKey = errors.New("agents: the connection has no key to sign with")

func encodeResponse(response any) (jsontext.Value, error) {
	b, err := json.Marshal(response, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("agents: encoding an answer: %w", err)
	}
	if text := jsontext.Value(b); text.Kind() == '{' {
		return text, nil
	}
	return nil, ErrNotObject
}

// askJSON is a request of a person: people speak JSON.
func askJSON[R any](ctx context.Context, c *Connection, subject string, message any) (R, error) {
	return exchange[R](ctx, c, bcp.JSON, subject, "", message, nil)
}
