package bcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// The messages of the two BCP seeds. What the gateway sends is plain data that
// [Encode] writes canonically; what agents send is parsed strictly, by
// [ParseAsk], [ParseResponse] and [ParseSession].

// Types of messages.
const (
	TypeQueryRequest        = "bcp_query_request"
	TypeQuery               = "bcp_query"
	TypeResponse            = "bcp_response"
	TypeValidationResult    = "bcp_validation_result"
	TypeResponseDelivery    = "bcp_response_delivery"
	TypeSubscriptionsActive = "bcp_subscriptions_active"
	TypeSession             = "bcp_session"
	TypePrompt              = "bcp_prompt"
	TypeAlert               = "bcp_alert"
	TypeEgress              = "bcp_egress"
	TypeUsage               = "bcp_usage"
	TypeChannels            = "bcp_channels"
)

// Query is what the gateway sends a Reader.
type Query struct {
	Type       string    `json:"type"`
	QueryID    QueryID   `json:"query_id"`
	Controller AgentName `json:"controller"`
	Spec       `json:",inline"`
	// Instruction and Content are in the queries of a kernel alone: what is to be done, and
	// with what, which nobody but this Reader is given.
	Instruction string `json:"instruction,omitempty"`
	Content     string `json:"content,omitempty"`
}

// Accepted answers an ask at once (PROTOCOL P9.1).
type Accepted struct {
	QueryID       QueryID `json:"query_id"`
	NominalBits   Bits    `json:"nominal_bits"`
	CapacityBits  Bits    `json:"capacity_bits"`
	RemainingBits Bits    `json:"remaining_bits"`
}

// Refusal answers an ask, or any other message of a Controller, that was
// refused: a code of the closed list and its constant text.
type Refusal struct {
	Error  Code   `json:"error"`
	Detail string `json:"detail"`
}

// RefusalOf returns the refusal with a code and its constant text.
func RefusalOf(code Code) Refusal { return Refusal{Error: code, Detail: code.Info().Text} }

// Delivery is the validated message that a Controller gets. It has exactly one
// of QueryID and SubscriptionID, and one of Response, Batch and Outcome.
type Delivery struct {
	Type           string         `json:"type"`
	DeliveryID     DeliveryID     `json:"delivery_id"`
	QueryID        QueryID        `json:"query_id,omitempty"`
	SubscriptionID SubscriptionID `json:"subscription_id,omitempty"`
	// RunID is the run whose result it is, if a kernel said it.
	RunID     string    `json:"run_id,omitempty"`
	Category  Category  `json:"category"`
	FromAgent AgentName `json:"from_agent"`
	// Response is the canonical answer.
	Response jsontext.Value `msgpack:"-" json:"response,omitzero"`
	// Batch are the pushes of a window of the subscription, sorted by their bytes,
	// where it has a batch_window. The bits are those of all of them.
	Batch []Pushed `json:"batch,omitempty"`
	// Outcome says how a query ended, or that it is held, when there is no
	// response.
	Outcome Code `json:"outcome,omitempty"`
	// Anomalies are set where the channel flags them.
	Anomalies     []string `json:"anomalies,omitempty"`
	BandwidthBits Bits     `json:"bandwidth_bits"` // nominal, charged
	CapacityBits  Bits     `json:"capacity_bits"`  // charged
	Taint         Taint    `json:"taint"`
	ChannelMode   string   `json:"channel_mode"` // always "bcp"
}

// ValidationResult tells a Reader what became of its answer or push.
type ValidationResult struct {
	Type           string         `json:"type"`
	QueryID        QueryID        `json:"query_id,omitempty"`
	SubscriptionID SubscriptionID `json:"subscription_id,omitempty"`
	// PushID is that of the push that a final result is about.
	PushID  ClientID `msgpack:"-" json:"push_id,omitempty"`
	Success bool     `json:"success"`
	Status  string   `json:"status"` // delivered, held or refused (PROTOCOL P7.6)
	Code    Code     `json:"code,omitempty"`
	Detail  string   `json:"detail"`
	// RetryAfter is in whole seconds, of a push that was rate_limited: then the same
	// push may be sent again.
	RetryAfter int64 `json:"retry_after_seconds,omitzero"`
}

// The statuses of a ValidationResult.
const (
	StatusDelivered = "delivered"
	StatusHeld      = "held"
	StatusRefused   = "refused"
)

// SubscriptionsActive lists a Reader's subscriptions; it gets it before
// anything else (PROTOCOL P9.3).
type SubscriptionsActive struct {
	Type          string               `json:"type"`
	Subscriptions []ActiveSubscription `json:"subscriptions"`
	// Tools are those of the protocol's own that the Reader's definition lists.
	Tools []string `json:"tools,omitempty"`
	// ShareQueries asks each connection of the Reader to take its queries as one of the
	// queue group [QueryQueue], and no more than it can answer.
	ShareQueries bool `json:"share_queries,omitzero"`
}

// QueryQueue is the queue group of connections that share a Reader's queries.
const QueryQueue = "readers"

// ActiveSubscription is one subscription as its Reader sees it.
type ActiveSubscription struct {
	SubscriptionID SubscriptionID `json:"subscription_id"`
	Controller     AgentName      `json:"controller"`
	// What the gateway enforces of a push beyond its spec (PROTOCOL P12): a Reader
	// that keeps to it is refused nothing.
	MaxRate     Rate   `json:"max_rate,omitzero"`
	BatchWindow string `json:"batch_window,omitempty"`
	PublishWhen string `json:"publish_when,omitempty"`
	Spec        `json:",inline"`
}

// Escalation carries a Controller's reason for a wider question (PROTOCOL P6).
type Escalation struct {
	Justification string `json:"justification"`
}

// Ask is a Controller's request for a query.
type Ask struct {
	Type       string      `json:"type,omitempty"`
	Target     AgentName   `json:"target,omitempty"`
	RequestID  ClientID    `json:"request_id,omitempty"`
	Escalation *Escalation `json:"escalation,omitzero"`
	Spec       `json:",inline"`
}

// Response is what a Reader sends: the answer to a query, or a push.
type Response struct {
	Type                 string         `json:"type"`
	QueryID              QueryID        `json:"query_id,omitempty"`
	SubscriptionID       SubscriptionID `json:"subscription_id,omitempty"`
	Controller           AgentName      `json:"controller,omitempty"`
	PushID               ClientID       `json:"push_id,omitempty"`
	NotEnoughInformation bool           `json:"not_enough_information,omitzero"`
	Response             jsontext.Value `json:"response,omitzero"`
}

// Session is a Controller's message about its session.
type Session struct {
	Type string `json:"type,omitempty"`
	Verb string `json:"verb"` // open, close, taint, channels, propose or hand
	// Taint goes with the verb taint: what the agent has read.
	Taint *TaintReport `json:"taint,omitzero"`
	// Proposal goes with the verb propose.
	Proposal *Proposal `json:"proposal,omitzero"`
	// Handle goes with the verb hand.
	Handle Handle `json:"handle,omitempty"`
}

// The verbs of a Session.
const (
	VerbOpen  = "open"
	VerbClose = "close"
	VerbTaint = "taint"
	// VerbChannels asks for the Controller's channels, and changes nothing.
	VerbChannels = "channels"
	// VerbPropose proposes a subscription: see [Proposal].
	VerbPropose = "propose"
	// VerbHand hands a sealed value to a person: see [Handle].
	VerbHand = "hand"
)

// Prompt is what a cron schedule tells its agent (PROTOCOL P9.4).
type Prompt struct {
	Type     string     `json:"type"`
	PromptID DeliveryID `json:"prompt_id"`
	Message  string     `json:"message"`
	// Time is that of the run, in the mesh's time zone.
	Time time.Time `json:"time"`
}

// Encode writes a message in an agent's encoding: keys in the order of its
// type, shortest forms (PROTOCOL P2.4).
func Encode(message any, encoding Encoding) ([]byte, error) {
	b, err := json.Marshal(message, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encoding a message: %w", err)
	}
	switch encoding {
	case JSON:
		return b, nil
	case MessagePack:
		return wire.MsgpackFromJSON(nil, b)
	default:
		return nil, errEncoding
	}
}

var errEncoding = fmt.Errorf("no such encoding")

// toJSON returns b as JSON; what is not MessagePack where it should be is
// malformed.
func toJSON(dst, b []byte, encoding Encoding) ([]byte, error) {
	switch encoding {
	case JSON:
		return b, nil
	case MessagePack:
		return wire.JSONFromMsgpack(dst, b)
	default:
		return nil, errEncoding
	}
}

// ParseAsk reads a Controller's ask to reader. The code is empty, or
// message_too_large, malformed or invalid_query (PROTOCOL P2.2, P10).
func ParseAsk(b []byte, encoding Encoding, reader AgentName) (Ask, Code) {
	var ask Ask
	if code := parseControllerMessage(b, encoding, &ask); code != "" {
		return Ask{}, code
	}
	if ask.Type != "" && ask.Type != TypeQueryRequest || ask.Target != "" && ask.Target != reader {
		return Ask{}, Malformed
	}
	if _, err := ParseClientID(string(ask.RequestID)); err != nil && ask.RequestID != "" {
		return Ask{}, Malformed
	}
	if !canonicalArguments(&ask.Spec) {
		return Ask{}, InvalidQuery
	}
	return ask, ""
}

// canonicalArguments spells the arguments of a spec in one way: keys sorted, no white
// space. It is false where they are no object, or more than [MaxArgumentBytes].
func canonicalArguments(s *Spec) bool {
	if s.Arguments == nil {
		return true
	}
	if s.Arguments.Kind() != '{' {
		return false
	}
	s.Arguments = slices.Clone(s.Arguments)
	err := s.Arguments.Format(jsontext.ReorderRawObjects(true), jsontext.SpaceAfterColon(false), jsontext.SpaceAfterComma(false), jsontext.Multiline(false))
	return err == nil && len(s.Arguments) <= MaxArgumentBytes
}

// ParseSession reads a Controller's message about its session. The code is
// empty, message_too_large or malformed.
func ParseSession(b []byte, encoding Encoding) (Session, Code) {
	var m Session
	switch parseControllerMessage(b, encoding, &m) {
	case "":
	case MessageTooLarge:
		return Session{}, MessageTooLarge
	default:
		return Session{}, Malformed
	}
	valid := (m.Verb == VerbOpen || m.Verb == VerbClose || m.Verb == VerbChannels) && m.Taint == nil ||
		m.Verb == VerbTaint && m.Taint != nil && m.Taint.Source.Valid() || (m.Verb == VerbPropose || m.Verb == VerbHand) && m.Taint == nil
	valid = valid && (m.Proposal != nil) == (m.Verb == VerbPropose) && (m.Handle != "") == (m.Verb == VerbHand)
	if m.Type != "" && m.Type != TypeSession || !valid {
		return Session{}, Malformed
	}
	return m, ""
}

// ParseControl reads an operator's message as strictly.
func ParseControl(b []byte) (c Control, ok bool) {
	return c, parseControllerMessage(b, JSON, &c) == ""
}

// ParseJoinRequest reads the request of whoever holds an invitation as strictly.
func ParseJoinRequest(b []byte) (r JoinRequest, ok bool) {
	return r, parseControllerMessage(b, JSON, &r) == "" && r.Type == TypeJoinRequest
}

func parseControllerMessage(b []byte, encoding Encoding, message any) Code {
	if len(b) > MaxControllerMessage {
		return MessageTooLarge
	}
	b, err := toJSON(nil, b, encoding)
	if err != nil || wire.Check(b) != nil {
		return Malformed
	}
	if unmarshal(b, message) != nil {
		return InvalidQuery
	}
	return ""
}

// unmarshal reads checked JSON without unknown or empty members.
func unmarshal(b []byte, message any) error {
	err := json.Unmarshal(b, message, json.RejectUnknownMembers(true))
	if err == nil && emptyMember(b) {
		return errEmptyMember
	}
	return err
}

// ParseSpec reads a spec on its own, for tools: strictly, like the spec of an
// ask. Whether it can be asked is for [Compile] to say.
func ParseSpec(b []byte) (Spec, error) {
	s, err := parseAlone[Spec](b)
	if err == nil && !canonicalArguments(&s) {
		return Spec{}, errArguments
	}
	return s, err
}

var errArguments = errors.New("arguments: expected an object of at most 16 KiB")

// ParseProposedSubscription reads a proposed subscription on its own, as strictly,
// and refuses what no definition can hold. Whether its spec compiles is for
// [Compile] to say.
func ParseProposedSubscription(b []byte) (ProposedSubscription, error) {
	p, err := parseAlone[ProposedSubscription](b)
	if err == nil {
		_, err = p.Subscription()
	}
	return p, err
}

// parseJSON reads a message in JSON strictly: of at most so many bytes, without unknown
// members, and as valid says. The code is [Malformed] or [MessageTooLarge].
func parseJSON[T any](b []byte, most int, valid func(*T) bool) (value T, code Code) {
	if len(b) > most {
		return value, MessageTooLarge
	}
	if wire.Check(b) != nil || json.Unmarshal(b, &value, json.RejectUnknownMembers(true)) != nil || !valid(&value) {
		return *new(T), Malformed
	}
	return value, ""
}

func parseAlone[T any](b []byte) (value T, err error) {
	if len(b) > MaxControllerMessage {
		return value, errSpecSize
	}
	if err = wire.Check(b); err == nil {
		err = unmarshal(b, &value)
	}
	if err != nil {
		return *new(T), err
	}
	return value, nil
}

var (
	errSpecSize    = fmt.Errorf("a spec has at most %d bytes", MaxControllerMessage)
	errEmptyMember = errors.New("a limit or name that is 0 or empty: leave it out, or say a value")
)

// mayBeAbsent are keys that may be left out, and have a value if they are there.
var mayBeAbsent = []string{"max_words", "max_chars", "directive", "vocabulary", "alphabet", "same_as", "target", "request_id", "type", "publish_when", "batch_window"}

// emptyMember reports whether checked JSON spells out the zero value of a key
// that may be left out. Go cannot tell "max_words": 0 from no max_words at all,
// and a limit that somebody wrote down must never be skipped.
func emptyMember(b []byte) bool {
	dec, key := jsontext.NewDecoder(bytes.NewReader(b)), ""
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return err != io.EOF
		}
		switch in, n := dec.StackIndex(dec.StackDepth()); {
		case in == '{' && n%2 == 1:
			key = token.String()
		case in == '{' && slices.Contains(mayBeAbsent, key) && (token.Kind() == '"' && token.String() == "" || token.Kind() == '0' && token.String() == "0"):
			return true
		}
	}
}

// RawAnswer is an answer as a Reader sent it, found in its message, which is well-formed:
// not judged, not normalised, never shown to a Controller.
type RawAnswer struct {
	json []byte
	form form
}

// form says which of the seeds' shapes an answer has.
type form uint8

const (
	formNone    form = iota
	formObject       // response: the map of the subscriptions seed, or one of the others inside it
	formFields       // fields: an object
	formAnswers      // answers: a list of {id, answer}
	formSummary      // summary: a text
)

// Incoming is a parsed bcp_response. Exactly one of QueryID and SubscriptionID
// is set.
type Incoming struct {
	QueryID              QueryID
	SubscriptionID       SubscriptionID
	Controller           AgentName
	PushID               ClientID
	NotEnoughInformation bool
	Raw                  RawAnswer
}

// ParseResponse reads a Reader's message. Whatever is not exactly one of the
// seeds' forms is malformed; the answer inside is not yet judged. The size is
// the caller's to check first, with the spec's [Validator.MaxBytes].
func ParseResponse(b []byte, encoding Encoding) (Incoming, Code) {
	b, err := toJSON(nil, b, encoding)
	if err != nil || wire.Check(b) != nil {
		return Incoming{}, Malformed
	}
	var m struct {
		Type           string          `json:"type"`
		QueryID        *QueryID        `json:"query_id"`
		SubscriptionID *SubscriptionID `json:"subscription_id"`
		Controller     *AgentName      `json:"controller"`
		PushID         *ClientID       `json:"push_id"`
		NotEnough      *bool           `json:"not_enough_information"`
		Response       jsontext.Value  `json:"response"`
		Fields         jsontext.Value  `json:"fields"`
		Answers        jsontext.Value  `json:"answers"`
		Summary        jsontext.Value  `json:"summary"`
	}
	if json.Unmarshal(b, &m, json.RejectUnknownMembers(true)) != nil || m.Type != TypeResponse {
		return Incoming{}, Malformed
	}
	in, answers := Incoming{NotEnoughInformation: m.NotEnough != nil && *m.NotEnough}, 0
	for i, raw := range [...]jsontext.Value{m.Response, m.Fields, m.Answers, m.Summary} {
		if raw != nil {
			in.Raw = RawAnswer{json: raw, form: formObject + form(i)}
			answers++
		}
	}
	valid := in.NotEnoughInformation == (m.NotEnough != nil) && given(m.QueryID, ParseQueryID, &in.QueryID) && given(m.SubscriptionID, ParseSubscriptionID, &in.SubscriptionID) &&
		given(m.Controller, ParseAgentName, &in.Controller) && given(m.PushID, ParseClientID, &in.PushID)
	query, push := in.QueryID != "", in.SubscriptionID != ""
	if !valid || (answers == 1) == in.NotEnoughInformation || answers > 1 || query == push || push != (in.Controller != "") || query && in.PushID != "" || push && in.NotEnoughInformation {
		return Incoming{}, Malformed
	}
	return in, ""
}

// given reads a name that a message may have, which is not empty if it is there.
func given[T ~string](member *T, parse func(string) (T, error), name *T) bool {
	if member == nil {
		return true
	}
	var err error
	*name, err = parse(string(*member))
	return err == nil
}

// Answer is a validated, normalised answer in canonical JSON. Only this package
// makes one, and nothing else of a Reader reaches a Controller. The zero value
// is no answer.
type Answer struct {
	json string
}

// IsZero reports whether there is no answer.
func (a Answer) IsZero() bool { return a.json == "" }

// JSON returns the canonical bytes; the caller owns the copy.
func (a Answer) JSON() []byte { return []byte(a.json) }

// String returns the canonical JSON.
func (a Answer) String() string { return a.json }
