package guard

import (
	"maps"
	"slices"
)

// Code says why a URL may not be fetched, or why a fetch failed. It is an error with a constant text, which holds nothing of
// the URL, the page or the host. The zero value is no code.
type Code string

// The codes of a URL and a policy, in the order in which they are looked for: the first that applies is the answer.
const (
	Malformed        Code = "malformed"         // is no URL of the grammar of [ParseTarget]
	BadScheme        Code = "scheme"            // neither http nor https
	UserInfo         Code = "userinfo"          // has an @ in its authority
	NotCanonical     Code = "not_canonical"     // the host has another spelling under which it is known
	AmbiguousAddress Code = "ambiguous_address" // programs disagree on which address is meant
	DenyAll          Code = "deny_all"          // the policy allows no host
	HostDenied       Code = "host"              // the policy does not list the host
	PortDenied       Code = "port"              // the policy lists the host with other ports
)

// The codes of a fetch that was allowed.
const (
	PrivateAddress   Code = "private_address"
	DNSFailed        Code = "dns"
	ConnectFailed    Code = "connect"
	TLSFailed        Code = "tls"
	TimedOut         Code = "timeout"
	BadStatus        Code = "status"
	BadContentType   Code = "content_type"
	TooLarge         Code = "too_large"
	Downgrade        Code = "downgrade"
	NoLocation       Code = "no_location"
	TooManyRedirects Code = "too_many_redirects"
	BudgetExhausted  Code = "budget_exhausted"
	LinksOnly        Code = "links_only"
	Unrecorded       Code = "unrecorded" // nobody recorded the request
	Suspended        Code = "suspended"  // the agent is, until the operator lifts it
)

// ToolChanged is of no URL: a tool of an MCP server is not as it was pinned, and was not called.
const ToolChanged Code = "tool_changed"

// Codes returns all codes, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(codeTexts)) }

// Refused reports whether a code says that a URL or its host may not be reached, whatever the host would have answered.
func (c Code) Refused() bool {
	switch c {
	case Malformed, BadScheme, UserInfo, NotCanonical, AmbiguousAddress, DenyAll, HostDenied, PortDenied, PrivateAddress, Downgrade, LinksOnly:
		return true
	}
	return false
}

var codeTexts = map[Code]string{
	Malformed:        "not a well-formed http or https URL",
	BadScheme:        "only http and https may be fetched",
	UserInfo:         "a URL may not carry a user name or password",
	NotCanonical:     "the host is not in its canonical form",
	AmbiguousAddress: "the address can be read in more than one way",
	DenyAll:          "no host is allowed",
	HostDenied:       "the host is not on the allow-list",
	PortDenied:       "the port is not on the allow-list",

	PrivateAddress:   "the host has an address that is not public",
	DNSFailed:        "the host has no address",
	ConnectFailed:    "the host cannot be reached",
	TLSFailed:        "the host does not prove who it is",
	TimedOut:         "the host takes too long",
	BadStatus:        "the host answers with an error",
	BadContentType:   "what the host sends is not text",
	TooLarge:         "what the host sends is too large",
	Downgrade:        "the host redirects from https to http",
	NoLocation:       "the host redirects to nowhere",
	TooManyRedirects: "the host redirects too often",
	BudgetExhausted:  "the budget for fetching is spent",
	Unrecorded:       "the mesh could not record the request",
	Suspended:        "the agent is suspended",
	LinksOnly:        "only links and start URLs may be fetched",

	ToolChanged: "the tool is not as it was pinned",
}

// Error returns a constant text for the code; for a word that is no code, the word.
func (c Code) Error() string {
	if text, ok := codeTexts[c]; ok {
		return text
	}
	return string(c)
}

// Known reports whether c is one of the codes above.
func (c Code) Known() bool { return codeTexts[c] != "" }
