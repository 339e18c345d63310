package bcp

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
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
	ItemEffect     ItemKind = "effect"     // a call of a run that a rule asks about
	ItemInDoubt    ItemKind = "in_doubt"   // a call of a run that may have been made
)

// maxReasonChars bounds the reason of a rejection, in code points.
const maxReasonChars = 500

// Approval is an approver's message about one item, in JSON.
type Approval struct {
	Item ItemID `json:"item_id"`
	// SHA256 is of the exact bytes that the act is about: those that approving
	// releases, those that an edit releases in their place, the reason of a
	// rejection. Swapped content is found by it.
	SHA256 Digest `json:"sha256,omitzero"`
	// Expires ends the signature's validity: not behind the item's deadline.
	Expires time.Time `json:"expires,omitzero"`
	// Reason of a rejection is told to the Reader whose answer it was, and to
	// nobody else but the audit.
	Reason string `json:"reason,omitempty"`
	// Response is what an edit delivers, in the shape of an answer. Without a
	// signature it is only looked at: see [EditPreview].
	Response jsontext.Value `json:"response,omitzero"`
	// Signature is of [Statement], by the approver's user nkey, in base64.
	Signature string `json:"signature,omitempty"`
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

// Verifier checks a signature by a public nkey. It must not panic.
type Verifier func(key string, statement, signature []byte) bool

// ParseApproval reads an approver's message. The code is empty or malformed.
func ParseApproval(b []byte) (Approval, Code) {
	var a Approval
	if len(b) > MaxControllerMessage || wire.Check(b) != nil || json.Unmarshal(b, &a, json.RejectUnknownMembers(true)) != nil {
		return Approval{}, Malformed
	}
	if _, err := parseID[ItemID](string(a.Item)); err != nil {
		return Approval{}, Malformed
	}
	if utf8.RuneCountInString(a.Reason) > maxReasonChars || strings.IndexFunc(a.Reason, invisible) >= 0 {
		return Approval{}, Malformed
	}
	return a, ""
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
	// SHA256 is of the exact bytes that approving releases: Content, or the
	// query that an escalation sends.
	SHA256 Digest `json:"sha256"`
	// Earlier are the last deliveries of the Controller's session, oldest first:
	// an instruction may come in parts.
	Earlier []Release `json:"earlier,omitempty"`
	// Effect is the call that an item of a run is about; Content then holds its
	// arguments.
	Effect *Effect `json:"effect,omitempty"`
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
	Content      jsontext.Value `json:"content,omitzero"`
	Nominal      Bits           `json:"nominal_bits"`
	Time         time.Time      `json:"time"`
}

// maxReleases is how many deliveries of a session an approver is shown, and
// maxReleaseBytes how much content of them together: a view has to fit a message,
// whatever a Reader delivered before.
const (
	maxReleases     = 16
	maxReleaseBytes = 256 << 10
)

// newest returns the last releases that fit a view, oldest first.
func newest(releases []Release) []Release {
	size := 0
	for i := len(releases) - 1; i >= 0; i-- {
		if size += len(releases[i].Content); size > maxReleaseBytes {
			releases = releases[i+1:]
			break
		}
	}
	return slices.Clip(releases)
}

// itemState is what waits for a person.
type itemState struct {
	Item
	deadline      int64
	counted       bool   // against max_pending_approvals
	content       []byte // what approving releases: the canonical answer, or the spec of an escalation
	justification string
	carries       Bits     // what the justification can
	client        ClientID // of a push
}

// decidedItem is the memory of an item that no longer waits.
type decidedItem struct {
	id   ItemID
	at   int64
	code Code // what a later decision hears
	// content is that of a proposal that was approved, and controller who made it.
	content    []byte
	controller AgentName
}

// ItemsFor returns what waits for this approver: items of the channels whose
// approvers it is one of, oldest first, and the channels taking turns, so that
// one that floods does not hide the others (PROTOCOL P7.1).
func (s *State) ItemsFor(approver AgentName) []Item {
	items := s.itemsWhere(func(it Item) bool { return s.mayDecide(approver, it) }, func(it *RunItem) bool { return s.mayDecideRun(approver, it) })
	turn := make(map[ChannelKey]int)
	turns := make(map[ItemID]int, len(items))
	for _, it := range items {
		turns[it.ID] = turn[it.channel()]
		turn[it.channel()]++
	}
	slices.SortStableFunc(items, func(a, b Item) int { return turns[a.ID] - turns[b.ID] })
	return items
}

// mayDecide reports whether a person is an approver of the item's channel. An
// agent never is, whatever a definition says.
func (s *State) mayDecide(approver AgentName, it Item) bool {
	ch := s.channels[it.channel()]
	return ch != nil && s.agents[approver] == nil && slices.Contains(ch.definition.Approvers, approver)
}

// View returns an item as an approver of its channel sees it. The code is empty,
// item_not_found, item_expired, already_decided or not_permitted.
func (s *State) View(approver AgentName, id ItemID) (ItemView, Code) {
	if it, ok := s.runItem(id); ok {
		if !s.mayDecideRun(approver, &it) {
			return ItemView{}, NotPermitted
		}
		return it.view(), ""
	}
	it := s.items[id]
	if it == nil {
		return ItemView{}, s.goneItem(id, s.last.Time)
	}
	if !s.mayDecide(approver, it.Item) {
		return ItemView{}, NotPermitted
	}
	view := ItemView{Item: it.Item, Justification: it.justification, JustificationBits: it.carries, SHA256: sha256.Sum256(it.content)}
	if it.Kind != ItemEscalation {
		view.Content = it.content
	}
	if v := s.validatorOf(it); v != nil {
		view.Spec = v.Spec()
	}
	source := it.Reader
	if p, ok := proposalOf(it.content); ok && it.Kind == ItemProposal {
		view.Spec, source = p.Subscription.Spec, it.Controller
	}
	if it.Kind == ItemEscalation {
		// As it was asked, without defaults: encoded, it is the bytes that SHA256 is
		// of, so an approver can compare what is shown with what is signed.
		var asked Spec
		if json.Unmarshal(it.content, &asked, json.RejectUnknownMembers(true)) == nil {
			view.Spec = asked
		}
	}
	if a := s.agents[source]; a != nil {
		view.Source = Source{Agent: source, Description: a.definition.Description, Network: a.definition.Network,
			Tools: a.definition.Tools, Taint: MaxTaint(a.definition.BaseTaint, a.reported)}
	}
	if a := s.agents[it.Controller]; a != nil {
		view.Earlier = newest(a.earlier())
	}
	return view, ""
}

// validatorOf returns what judged an item's content, nil where the definitions
// of today do not have it any more.
func (s *State) validatorOf(it *itemState) *Validator {
	if it.Query != "" {
		if q := s.queries[it.Query]; q != nil {
			return q.validator
		}
		return nil
	}
	if it.Kind == ItemProposal {
		return nil
	}
	return s.channels[it.channel()].subscriptions[it.Subscription]
}

// declared returns the subscription that an item is of. A proposed one is the
// Controller's word, and not for records.
func (it *itemState) declared() SubscriptionID {
	if it.Kind == ItemProposal {
		return ""
	}
	return it.Subscription
}

// goneItem says why an item does not wait.
func (s *State) goneItem(id ItemID, now int64) Code {
	for _, gone := range s.decided {
		if gone.id == id && now-gone.at < clientMemory {
			return gone.code
		}
	}
	return ItemNotFound
}

// Preview judges an edit without deciding anything.
func (s *State) Preview(approver AgentName, body []byte) (EditPreview, Refusal) {
	a, code := ParseApproval(body)
	if code != "" {
		return EditPreview{}, RefusalOf(code)
	}
	if it, ok := s.runItem(a.Item); ok {
		return s.previewResult(approver, &it, &a)
	}
	it := s.items[a.Item]
	switch {
	case it == nil:
		return EditPreview{}, RefusalOf(s.goneItem(a.Item, s.last.Time))
	case !s.mayDecide(approver, it.Item):
		return EditPreview{}, RefusalOf(NotPermitted)
	}
	verdict := s.judgeEdit(it, a)
	if verdict.Answer.IsZero() {
		return EditPreview{}, Refusal{Error: Malformed, Detail: verdict.detail()}
	}
	content := verdict.Answer.JSON()
	return EditPreview{Item: it.ID, Content: content, SHA256: sha256.Sum256(content), Anomalies: verdict.Anomalies}, Refusal{}
}

// detail says what is wrong with an answer, to its own author.
func (v Verdict) detail() string { return ReaderDetail(v.Reason.Code(), v.Reason, v.Field, "", "") }

// judgeEdit validates what a person wrote in place of an answer. Anomalies do
// not hold it again: a person has seen it.
func (s *State) judgeEdit(it *itemState, a Approval) Verdict {
	v := s.validatorOf(it)
	if v == nil || it.Kind == ItemEscalation || len(a.Response) == 0 {
		return Verdict{Outcome: Reject, Reason: ReasonMalformed}
	}
	return v.Validate(a.Response, JSON)
}

// DecideApproval judges what a person says about an item, with the public key
// of the connection that it came over, as the server knows it. A decision that
// counts has Verdict Accept, whatever was decided.
func (s *State) DecideApproval(m Moment, approver AgentName, key string, act Act, body []byte) Decision {
	d := s.next(m, KindApproval)
	d.Agent, d.Role, d.Event, d.RawBytes = approver, RoleApprover, string(act), len(body)
	a, code := ParseApproval(body)
	if code != "" {
		return d.refuse(CheckMessage, code)
	}
	d.Item = a.Item
	if it, ok := s.runItem(a.Item); ok {
		return s.decideRunItem(d, m, &it, key, act, &a)
	}
	it := s.items[a.Item]
	if it == nil {
		return d.refuse(CheckItem, s.goneItem(a.Item, d.Time))
	}
	d.Controller, d.Reader, d.Query, d.Subscription, d.Category = it.Controller, it.Reader, it.Query, it.declared(), it.Category
	q := s.queries[it.Query]
	if d.Time >= it.deadline || !d.At().Before(a.Expires) || it.Kind == ItemEscalation && q.cancelled {
		return d.refuse(CheckInTime, ItemExpired)
	}
	content, code := s.decidedBytes(it, act, a)
	stands := func() bool { return act == RejectItem || s.stands(it, content) }
	if check, refused := s.judgeApproval(&it.Item, s.mayDecide(approver, it.Item), stands, key, act, &a, content, code); refused != "" {
		return d.refuse(check, refused)
	}
	d.Verdict, d.Note = Accept, a.Reason
	d.signed(key, &a)
	s.carryOut(&d, m, it, act, content)
	return d
}

// stands reports whether an item may still be released: the definitions may have
// changed since it was held (PROTOCOL P1.5), and those of today hold; and it may
// have been erased. It may be rejected all the same.
func (s *State) stands(it *itemState, content []byte) bool {
	if p, ok := proposalOf(content); it.Kind == ItemProposal {
		_, code := s.judgeProposal(it.Controller, &p)
		return ok && code == ""
	}
	if len(content) == 0 || it.Category > s.channels[it.channel()].definition.MaxCategory {
		return false
	}
	v := s.validatorOf(it)
	return v != nil && (it.Kind == ItemEscalation || string(v.Validate(content, JSON).Answer.JSON()) == string(content))
}

// decidedBytes returns the bytes that an act is about.
func (s *State) decidedBytes(it *itemState, act Act, a Approval) ([]byte, Code) {
	switch {
	case act == RejectItem && len(a.Response) == 0:
		return []byte(a.Reason), ""
	case a.Reason != "":
		return nil, Malformed
	case act == Approve && len(a.Response) == 0:
		return it.content, ""
	case act == EditItem:
		if verdict := s.judgeEdit(it, a); !verdict.Answer.IsZero() {
			return verdict.Answer.JSON(), ""
		}
	}
	return nil, Malformed
}

// carryOut makes the decision do what the person wants.
func (s *State) carryOut(d *Decision, m Moment, it *itemState, act Act, content []byte) {
	ch, q := s.channels[it.channel()], s.queries[it.Query]
	d.Epoch = ch.newest()
	if q != nil {
		d.Epoch = q.epoch
	}
	switch {
	case it.Kind == ItemProposal:
		if act == Approve {
			d.Payload = content
		}
	case it.Kind == ItemEscalation && act == Approve:
		d.Deadline = d.Time + int64(ch.definition.QueryTTL)
	case it.Kind == ItemEscalation:
		s.fail(d, m, ch, q, EscalationDenied)
		return
	case act == RejectItem:
		s.settleItem(d, m, it, ApprovalRejected)
		return
	default:
		d.Payload = content
		s.settleItem(d, m, it, "")
		return
	}
	d.Balance = ch.pool(d.Epoch)
}

// settleItem ends an item whose content was charged when it was held: with its
// delivery, or with an outcome, which only the Controller of a query hears. The
// Reader gets the final result (PROTOCOL P7.6).
func (s *State) settleItem(d *Decision, m Moment, it *itemState, outcome Code) {
	ch := s.channels[it.channel()]
	if pushes := ch.pushesOf(it.Subscription); outcome == "" && pushes.window > 0 {
		d.Release, d.Taint = pushes.endWithRoom(d.Time), MaxTaint(s.taintOf(it.Reader), it.Taint)
		d.Nominal, d.Capacity, d.Timing, d.Prepaid = it.Nominal, it.Capacity, ch.definition.ReleaseInterval > 0, true
	} else if outcome == "" || it.Query != "" {
		s.deliver(d, m, ch, outcome)
		d.Taint = MaxTaint(d.Taint, it.Taint) // what was forgotten since makes nothing clean
		d.Nominal, d.Capacity, d.Timing, d.Prepaid = it.Nominal, it.Capacity, ch.definition.ReleaseInterval > 0, true
	}
	d.Notice = m.notice()
	d.Balance = ch.pool(d.Epoch)
}

// applyApproval applies what a person decided.
func (s *State) applyApproval(d *Decision, ch *channelState) error {
	if d.Verdict != Accept {
		return nil
	}
	s.drop(d, AlreadyDecided)
	q := s.queries[d.Query]
	if q == nil { // a push
		s.release(d, ch)
		return nil
	}
	if d.Delivery == "" { // let through its gate
		q.phase, q.sent, q.item, q.deadline = phaseSent, true, "", d.Deadline
		s.wake(timer{at: d.Deadline, query: d.Query})
		return nil
	}
	if err := s.charge(d, ch, q); err != nil {
		return err
	}
	s.end(d, ch, q)
	s.post(d, ch)
	return nil
}

// drop ends the item that the decision is about; code is what a later decision
// about it hears. The Reader whose answer it was gets the result.
func (s *State) drop(d *Decision, code Code) {
	it := s.items[d.Item]
	if it == nil {
		return
	}
	if it.counted {
		s.channels[it.channel()].pending--
	}
	if p := s.channels[it.channel()].pools[d.Epoch]; it.Query != "" && it.Kind != ItemEscalation && p != nil {
		p.held--
	}
	delete(s.items, it.ID)
	gone := decidedItem{id: it.ID, at: d.Time, code: code}
	if it.Kind == ItemProposal && d.Kind == KindApproval && d.Event == string(Approve) {
		gone.content, gone.controller = d.Payload, it.Controller
	}
	s.decided = append(s.decided, gone)
	if d.Notice != "" {
		result := d.Result()
		result.PushID = it.client
		s.notify(Notice{ID: d.Notice, Agent: it.Reader, Role: RoleReader, Peer: it.Controller, Message: result, held: it.Since.UnixNano()})
	}
}
