package bcp

import (
	"fmt"
	"math"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Egress is what an agent may reach, and how much it may send there. The zero
// value allows nothing.
type Egress struct {
	// Hosts are entries of an allow-list, as package guard reads them.
	Hosts []string
	// StartURLs may be fetched at the price of a link.
	StartURLs []string
	// LinksOnly refuses URLs that the agent composes.
	LinksOnly bool
	// Budget bounds what the agent tells hosts over Window, by which URLs it
	// fetches. BudgetStated says that the definition names it.
	Budget       Bits
	BudgetStated bool
	// Window is the length of the sliding window of all three limits.
	Window time.Duration
	// MaxBytes bounds what goes over the wire, in both directions, and
	// MaxHostBytes the part of one host.
	MaxBytes, MaxHostBytes int64
}

// PerDay is the greatest number of bits that leave in any 24 hours: a budget for
// each window that fits into a day, and for the one that has begun.
func (e Egress) PerDay() Bits {
	const day = 24 * time.Hour
	if len(e.Hosts) == 0 || e.Budget <= 0 || e.Window <= 0 {
		return 0
	}
	windows := Bits((day + e.Window - 1) / e.Window)
	if e.Budget > math.MaxInt64/windows {
		return math.MaxInt64
	}
	return e.Budget * windows
}

// What an agent sends out to hosts (PROTOCOL P13). Its keeper asks before each request,
// and the pool of the agent is part of the state: no record, no packet.

// MaxEgressMessage bounds what a keeper says at once, in bytes.
const MaxEgressMessage = 16 << 10

// EgressAct is what a keeper says.
type EgressAct string

// The acts of a keeper.
const (
	EgressReserve EgressAct = "reserve" // it asks for a request that it is about to send
	EgressSettle  EgressAct = "settle"  // it says how many bytes went over the wire
	EgressRefuse  EgressAct = "refuse"  // it has refused what the agent asked for
)

// EgressBy says who put a URL together.
type EgressBy string

// Who put a URL together; what a request may tell its host depends on it.
const (
	ByComposed EgressBy = "composed" // the agent
	ByLink     EgressBy = "link"     // a page that the agent was served, or start_urls
	ByRedirect EgressBy = "redirect" // the host of the hop before
)

// EgressRequest is what a keeper says about one request of its agent.
type EgressRequest struct {
	Act EgressAct `json:"act"`
	// ID names the request of a reserve and a settle: 1 to 64 letters, digits and hyphens.
	ID string `json:"egress_id,omitempty"`
	// URL is what is about to be fetched, or was refused.
	URL string   `json:"url,omitempty"`
	By  EgressBy `json:"by,omitempty"` // of a reserve
	// NanoBits is what a link tells hosts at most, a bit or more; others have a price that
	// follows from the URL.
	NanoBits int64 `json:"nano_bits,omitzero"`
	// Bytes go over the wire in both directions: of a reserve at most, of a settle in fact.
	Bytes int64 `json:"bytes,omitzero"`
	// Code says why a keeper refuses.
	Code guard.Code `json:"code,omitempty"`
}

// KeeperReceipt answers a keeper, with a [Code] or a [guard.Code].
type KeeperReceipt[C ~string] struct {
	Type    string `json:"type"`
	Allowed bool   `json:"allowed"`
	// Code says why a reserve or a call is not allowed.
	Code C `json:"code,omitempty"`
}

// EgressChange is what a decision says of an agent's egress.
type EgressChange struct {
	Act EgressAct `msgpack:"a" json:"act"`
	By  EgressBy  `msgpack:"b,omitempty" json:"by,omitempty"`
	// Entry is the entry of the definition's network that allows the host. The host itself
	// is the agent's word where the entry is a wildcard, and is sealed with the URL.
	Entry string `msgpack:"e,omitempty" json:"entry,omitempty"`
	// Why says why a request was refused.
	Why guard.Code `msgpack:"w,omitempty" json:"why,omitempty"`
	// Bits are what a reserve tells hosts at most, and Bytes what it reserves or a settle
	// counts. Both count up to Until, Unix nanoseconds.
	Bits  Bits  `msgpack:"n,omitempty" json:"bits,omitzero"`
	Bytes int64 `msgpack:"y,omitempty" json:"bytes,omitzero"`
	Until int64 `msgpack:"u,omitempty" json:"until,omitzero"`
	// UsedBits and UsedBytes, with reservations, are what counts after the decision.
	UsedBits  Bits  `msgpack:"s,omitempty" json:"used_bits"`
	UsedBytes int64 `msgpack:"t,omitempty" json:"used_bytes"`
	// Reserved is the decision of a settle's reserve.
	Reserved uint64 `msgpack:"r,omitempty" json:"reserved_seq,omitzero"`
	// Alert says that a budget is exhausted for the first time in a window.
	Alert bool `msgpack:"l,omitempty" json:"alert,omitzero"`
}

// ParseEgress reads what a keeper says, strictly. The code is [Malformed] or
// [MessageTooLarge].
func ParseEgress(b []byte) (EgressRequest, Code) {
	return parseJSON(b, MaxEgressMessage, (*EgressRequest).valid)
}

func (r *EgressRequest) valid() bool {
	switch r.Act {
	case EgressReserve:
		known := r.By == ByComposed || r.By == ByLink || r.By == ByRedirect
		return known && isToken(r.ID, false) && r.URL != "" && r.Bytes > 0 && r.Code == "" && (r.NanoBits == 0 || r.NanoBits >= int64(Bit)) && (r.By == ByLink) == (r.NanoBits > 0)
	case EgressSettle:
		return isToken(r.ID, false) && r.URL == "" && r.By == "" && r.NanoBits == 0 && r.Bytes >= 0 && r.Code == ""
	case EgressRefuse:
		return r.ID == "" && r.By == "" && r.NanoBits == 0 && r.Bytes == 0 && r.Code.Known()
	}
	return false
}

// What an agent's model takes (PROTOCOL P15). Its keeper asks before each call, and what
// counts of the agent is part of the state: no record, no call.

// UsageAct is what a keeper says of a call of a model.
type UsageAct string

// The acts of a keeper.
const (
	UsageReserve UsageAct = "reserve" // it asks for a call that it is about to make
	UsageSettle  UsageAct = "settle"  // it says what the provider counted
	UsageReport  UsageAct = "report"  // it says that the model fails, or works again
)

// UsageRequest is what a keeper says about one call of the model of its agent.
type UsageRequest struct {
	Act UsageAct `json:"act"`
	// ID names the call: 1 to 64 letters, digits and hyphens.
	ID string `json:"call_id"`
	// Model is what definitions call the model that is asked, of a reserve.
	Model string `json:"model,omitempty"`
	// RequestBytes and MaxTokens bound what a reserve asks for.
	RequestBytes int64 `json:"request_bytes,omitzero"`
	MaxTokens    int64 `json:"max_output_tokens,omitzero"`
	// Tokens are those of a settle: none if the provider refused the call.
	Tokens `json:",inline"`
	// ModelFault is that of a report: none if the model works.
	ModelFault `json:",inline"`
	// Said is what the provider says of a fault: text from outside, without secrets. It is
	// logged for the operator, and never recorded.
	Said string `json:"untrusted_said,omitempty"`
}

// ModelFault is why the model of an agent fails, for the operator. The zero value is none.
type ModelFault struct {
	Fault  Fault `json:"fault,omitempty"`
	Status int   `json:"http_status,omitzero"` // of the provider's answer; 0 if there is none
}

// Fault is a way in which a model fails, of a closed list: journals hold the words.
type Fault string

// The faults of models.
const (
	FaultKey        Fault = "key"        // 401 and 403
	FaultRate       Fault = "rate"       // 429
	FaultOverloaded Fault = "overloaded" // 5xx and the like
	FaultUnreached  Fault = "unreached"  // no connection
	FaultSilent     Fault = "silent"     // a connection, and no answer
	FaultRefused    Fault = "refused"    // other 4xx: the model's name, its arguments, the account
	FaultReply      Fault = "reply"      // an answer that is not of the provider's protocol
	FaultProse      Fault = "prose"      // text, again and again, where a tool is to be called
)

var faultTexts = map[Fault]string{
	FaultKey: "the provider does not accept the key", FaultRate: "the provider takes no more calls for now",
	FaultOverloaded: "the provider is overloaded", FaultUnreached: "the provider cannot be reached",
	FaultSilent: "the provider does not answer", FaultRefused: "the provider refuses the request",
	FaultReply: "the provider's answer is not of its protocol", FaultProse: "it answers with text, and calls no tool",
}

// String is a fault in words, and empty if there is none.
func (f ModelFault) String() string {
	if f.Status == 0 {
		return faultTexts[f.Fault]
	}
	return fmt.Sprintf("%s (%d)", faultTexts[f.Fault], f.Status)
}

// UsageChange is what a decision says of a call of an agent's model. A settle has the
// numbers of its provider, as they were said.
type UsageChange struct {
	Act   UsageAct `msgpack:"a" json:"act"`
	ID    string   `msgpack:"i,omitempty" json:"call_id,omitempty"`
	Model string   `msgpack:"m,omitempty" json:"model,omitempty"`
	// Tokens and Cost are what a reserve takes at most, or a settle in fact. Both count up
	// to Until, Unix nanoseconds. Without a price, as Unpriced says, nothing is known of Cost.
	Tokens     int64 `msgpack:"t,omitempty" json:"tokens,omitzero"`
	Input      int64 `msgpack:"n,omitempty" json:"input_tokens,omitzero"`
	CacheRead  int64 `msgpack:"r,omitempty" json:"cache_read_tokens,omitzero"`
	CacheWrite int64 `msgpack:"w,omitempty" json:"cache_write_tokens,omitzero"`
	Output     int64 `msgpack:"o,omitempty" json:"output_tokens,omitzero"`
	Cost       USD   `msgpack:"c,omitempty" json:"usd,omitzero"`
	Unpriced   bool  `msgpack:"p,omitempty" json:"unpriced,omitzero"`
	Until      int64 `msgpack:"u,omitempty" json:"until,omitzero"`
	// UsedTokens and UsedCost, with reservations, are what counts after the decision.
	UsedTokens int64 `msgpack:"s,omitempty" json:"used_tokens"`
	UsedCost   USD   `msgpack:"d,omitempty" json:"used_usd"`
	// Reserved is the decision of a settle's reserve.
	Reserved uint64 `msgpack:"e,omitempty" json:"reserved_seq,omitzero"`
	// Alert is 80 or 100: for the first time in a window so many percent of a budget count.
	Alert int `msgpack:"l,omitempty" json:"alert_percent,omitzero"`
	// Fault and Status are those of a report, and Since is when the model began to fail, Unix
	// nanoseconds: of a report that begins it the time of the decision.
	Fault  Fault `msgpack:"f,omitempty" json:"fault,omitempty"`
	Status int   `msgpack:"h,omitempty" json:"http_status,omitzero"`
	Since  int64 `msgpack:"b,omitempty" json:"failing_since,omitzero"`
}

// ModelFault is that of a report.
func (c *UsageChange) ModelFault() ModelFault { return ModelFault{c.Fault, c.Status} }

// ParseUsage reads what a keeper says of a call, strictly. The code is [Malformed] or
// [MessageTooLarge].
func ParseUsage(b []byte) (UsageRequest, Code) {
	return parseJSON(b, MaxEgressMessage, (*UsageRequest).valid)
}

func (r *UsageRequest) valid() bool {
	t := r.Tokens
	if r.Act == UsageReport {
		_, known := faultTexts[r.Fault]
		fits := r.Fault == "" && r.Status == 0 && r.Said == "" || known && (r.Status == 0 || r.Status >= 100 && r.Status <= 999) && len(r.Said) <= MaxSaid
		return fits && r.ID == "" && r.Model == "" && r.RequestBytes == 0 && r.MaxTokens == 0 && t == Tokens{}
	}
	switch {
	case r.ModelFault != ModelFault{} || r.Said != "" || !isToken(r.ID, false), min(t.Input, t.CacheRead, t.CacheWrite, t.Output) < 0, max(t.Input, t.CacheRead, t.CacheWrite, t.Output) > MaxCallTokens:
		return false
	case r.Act == UsageReserve:
		return r.Model != "" && len(r.Model) <= MaxModelName && r.RequestBytes > 0 && r.RequestBytes <= maxCallBytes && r.MaxTokens > 0 && r.MaxTokens <= maxCallBytes && t == Tokens{}
	}
	return r.Act == UsageSettle && r.Model == "" && r.RequestBytes == 0 && r.MaxTokens == 0
}

const (
	// MaxModelName bounds what definitions may call a model, in bytes.
	MaxModelName = 1024
	// MaxCallTokens bounds each kind of tokens of a settle: a provider that says that it
	// counted more is not believed.
	MaxCallTokens = 1 << 32
	// MaxSaid is how many bytes of a provider's words a report may have.
	MaxSaid = 512

	maxCallBytes = 1 << 28 // of a reserve, and its tokens
)
