package bcp

import (
	"fmt"
	"slices"
)

// Code is a stable word of the protocol's closed error lists (PROTOCOL P10).
// The empty code means that nothing is wrong.
type Code string

// The codes. Each party hears its own list only: see [Catalogue].
const (
	Malformed            Code = "malformed"
	MessageTooLarge      Code = "message_too_large"
	RateLimited          Code = "rate_limited"
	Unavailable          Code = "unavailable"
	Internal             Code = "internal"
	BudgetExhausted      Code = "budget_exhausted"
	ApprovalQueueFull    Code = "approval_queue_full"
	ApprovalRejected     Code = "approval_rejected"
	Cancelled            Code = "cancelled"
	Suspended            Code = "suspended"
	QueryUnknown         Code = "query_unknown"
	QueryExpired         Code = "query_expired"
	AlreadyAnswered      Code = "already_answered"
	SubscriptionNotFound Code = "subscription_not_found"
	ValidationFailed     Code = "validation_failed"
	// Filtered answers a push for which the subscription's publish_when does not
	// hold.
	Filtered Code = "filtered"
	// ControllerUnavailable answers a push to a Controller that could not be
	// started.
	ControllerUnavailable Code = "controller_unavailable"

	// RoleRequired refuses an agent of another organisation that has not shown its roles.
	RoleRequired Code = "role_required"

	NoChannel              Code = "no_channel"
	CategoryDenied         Code = "category_denied"
	InvalidQuery           Code = "invalid_query"
	UnknownHandle          Code = "unknown_handle"
	EscalationRequired     Code = "escalation_required"
	EscalationLimitReached Code = "escalation_limit_reached"
	EscalationDenied       Code = "escalation_denied"
	QueryLimitReached      Code = "query_limit_reached"
	ReaderUnavailable      Code = "reader_unavailable"
	Held                   Code = "held"
	Rejected               Code = "rejected"
	Expired                Code = "expired"
	NotEnoughInformation   Code = "not_enough_information"
	ApprovalExpired        Code = "approval_expired"

	ItemNotFound   Code = "item_not_found"
	ItemExpired    Code = "item_expired"
	AlreadyDecided Code = "already_decided"
	DigestMismatch Code = "digest_mismatch"
	NotPermitted   Code = "not_permitted"
)

// Audience says who may hear a code.
type Audience uint8

// The audiences; a code may have several.
const (
	ToReader Audience = 1 << iota
	ToController
	ToApprover
)

// CodeInfo is one line of the catalogue.
type CodeInfo struct {
	Code     Code
	To       Audience
	Outcome  bool   // ends (or, for held, suspends) a query, instead of refusing an ask
	Retry    bool   // the same message may succeed later
	Text     string // constant text for a Controller and an approver; a Reader hears [ReaderDetail]
	Decision string // what to do about it
}

// Catalogue lists every code in the order in which they apply: the first that
// applies is the one that is heard. Documents and tests are made from it.
func Catalogue() []CodeInfo { return slices.Clone(catalogue) }

const (
	toBoth = ToReader | ToController
	toAll  = toBoth | ToApprover
)

var catalogue = []CodeInfo{
	{Malformed, toAll, false, false, "the message is not well-formed", "send exactly the documented JSON or MessagePack"},
	{MessageTooLarge, toBoth, false, false, "the message is too large", "send less"},
	{RateLimited, toBoth, false, true, "too many refused messages, or pushes beyond max_rate", "wait for as long as the result says, or a minute, and send only what the protocol allows"},
	{Suspended, toBoth, false, false, "the agent is suspended", "tell the operator: bcpmesh taint --lift ends it"},
	{NoChannel, ToController, false, false, "there is no channel to this reader", "ask a reader that one of your channels names"},
	{RoleRequired, toBoth, false, true, "an end of the channel has to show its roles first", "let the agent of the other organisation be judged: docs/roles.md"},
	{CategoryDenied, ToController, false, false, "the channel does not allow this category", "ask in a lower category"},
	{InvalidQuery, ToController, false, false, "the query's spec is not valid", "check the spec with bcpmesh validate"},
	{UnknownHandle, ToController, false, false, "a handle is of no sealed value of this session", "use handles of answers to this agent, in the session in which they came"},
	{EscalationRequired, ToController, false, false, "this query is an escalation and needs a justification", "add escalation.justification in your own words"},
	{EscalationLimitReached, ToController, false, false, "the session's escalations are spent", "close the session and begin a new one"},
	{EscalationDenied, ToController, true, false, "a person denied the escalation", "ask in a lower category"},
	{QueryLimitReached, ToController, false, false, "the epoch's category 2 queries are spent", "ask in category 1, or wait for a new epoch"},
	{QueryUnknown, ToReader, false, false, "no such query is open", "answer queries that the gateway sent to you"},
	{QueryExpired, ToReader, false, false, "the query has expired", "answer within its time"},
	{Cancelled, toBoth, true, false, "the query was cancelled", "nothing"},
	{AlreadyAnswered, ToReader, false, false, "the query is answered already", "answer each query once"},
	{SubscriptionNotFound, ToReader, false, false, "no such subscription", "push against the subscriptions that bcp_subscriptions_active lists"},
	{ValidationFailed, ToReader, false, true, "the answer does not match its spec", "correct the answer"},
	{Filtered, ToReader, false, false, "the subscription's publish_when does not hold for the answer", "push only what the publish_when of bcp_subscriptions_active holds for"},
	{BudgetExhausted, toBoth, true, true, "the channel's budget is exhausted", "ask for less, or wait for a new epoch"},
	{ApprovalQueueFull, toBoth, false, true, "too many items of the channel wait for approval", "let approvers decide what waits"},
	{ReaderUnavailable, ToController, false, true, "the reader could not be started", "look at the reader's log"},
	{Held, ToController, true, false, "the answer waits for a person", "wait for the final outcome"},
	{Rejected, ToController, true, false, "the reader gave no valid answer", "ask something else"},
	{Expired, ToController, true, false, "the reader did not answer in time", "ask again"},
	{NotEnoughInformation, ToController, true, false, "the reader has not enough information", "ask something else"},
	{ApprovalRejected, toBoth, true, false, "a person rejected the answer", "nothing"},
	{ControllerUnavailable, ToReader, false, true, "the controller could not be started", "push again later"},
	{ApprovalExpired, ToController, true, false, "no person decided in time", "ask again when an approver is there"},
	{ItemNotFound, ToApprover, false, false, "there is no such item", "list the items"},
	{ItemExpired, ToApprover, false, false, "the item has expired", "nothing"},
	{AlreadyDecided, ToApprover, false, false, "the item is decided already", "nothing"},
	{DigestMismatch, ToApprover, false, false, "the decision is about other bytes", "look at the item again"},
	{NotPermitted, ToApprover, false, false, "you may not decide this item", "ask one of its approvers"},
	{Unavailable, toBoth, true, true, "the gateway cannot record a decision now", "try again"},
	{Internal, toBoth, true, true, "the gateway could not decide", "try again, and tell the operator"},
}

// Info returns the line of c; an unknown code is internal.
func (c Code) Info() CodeInfo {
	for _, line := range catalogue {
		if line.Code == c {
			return line
		}
	}
	return catalogue[len(catalogue)-1]
}

// rejectedDetail is what a Reader hears of an answer that a person rejected.
func rejectedDetail(reason string) string {
	if reason == "" {
		reason = "no reason given"
	}
	return "Publish rejected by reviewer: " + reason
}

// Reason says which check an answer failed. It is finer than a code and is
// heard by the answer's own Reader and the audit only.
type Reason uint8

// The reasons; their numbers are frozen, since journals hold them.
const (
	ReasonTooLarge    Reason = 1
	ReasonMalformed   Reason = 2
	ReasonUnknownName Reason = 3
	ReasonMissing     Reason = 4
	ReasonType        Reason = 5
	ReasonValue       Reason = 6
	ReasonRange       Reason = 7
	ReasonFormat      Reason = 8
	ReasonEmpty       Reason = 9
	ReasonWords       Reason = 10
	ReasonWordLength  Reason = 11
	ReasonLength      Reason = 12
	ReasonAlphabet    Reason = 13
	ReasonScript      Reason = 14
	ReasonCharacters  Reason = 15
	ReasonAnomaly     Reason = 16
	ReasonFiltered    Reason = 17
	ReasonLook        Reason = 18
)

var reasonTexts = []string{
	"",
	"the answer is larger than its spec allows",
	"the answer is not well-formed",
	"a name that the spec does not have",
	"is missing",
	"has the wrong type",
	"is not one of the values",
	"is out of range",
	"does not have the expected format",
	"has no words",
	"has too many words",
	"has a word of more than 24 characters",
	"is too long",
	"has characters outside the alphabet",
	"has a word that mixes scripts",
	"has characters that are not allowed",
	"looks like instructions, code or an address",
	"the subscription's publish_when does not hold for the answer",
	"has a word that looks like one of another script",
}

func (r Reason) String() string {
	if int(r) >= len(reasonTexts) {
		return "invalid"
	}
	return reasonTexts[r]
}

// Code is the wire code of an answer that failed for this reason.
func (r Reason) Code() Code {
	switch r {
	case 0:
		return ""
	case ReasonTooLarge:
		return MessageTooLarge
	case ReasonMalformed:
		return Malformed
	case ReasonFiltered:
		return Filtered
	default:
		return ValidationFailed
	}
}

// ReaderDetail is the text that a Reader hears with a refusal: the seed's five
// texts word for word (SUB-113 to SUB-117), constant texts otherwise. The
// subscription and the Controller are names from the Reader's own message that
// were parsed, or empty; field comes from the spec.
func ReaderDetail(code Code, reason Reason, field string, subscription SubscriptionID, controller AgentName) string {
	switch code {
	case SubscriptionNotFound:
		return fmt.Sprintf("No active subscription '%s' from controller '%s'", subscription, controller)
	case BudgetExhausted:
		return fmt.Sprintf("Bandwidth budget exhausted for channel to '%s'", controller)
	case ControllerUnavailable:
		return fmt.Sprintf("Controller '%s' is unavailable", controller)
	case ApprovalRejected:
		return rejectedDetail("")
	case ValidationFailed, Malformed, MessageTooLarge:
		if reason == 0 {
			return code.Info().Text
		}
		if field == "" {
			return reason.String()
		}
		return field + ": " + reason.String()
	default:
		return code.Info().Text
	}
}
