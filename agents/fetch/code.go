package fetch

import (
	"errors"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Codes of a fetch that fails, beside those of a URL and a policy. Like those they are errors with constant texts: what an
// agent is told holds no byte of a server.
const (
	PrivateAddress   guard.Code = "private_address"
	DNSFailed        guard.Code = "dns"
	ConnectFailed    guard.Code = "connect"
	TLSFailed        guard.Code = "tls"
	TimedOut         guard.Code = "timeout"
	BadStatus        guard.Code = "status"
	BadContentType   guard.Code = "content_type"
	TooLarge         guard.Code = "too_large"
	Downgrade        guard.Code = "downgrade"
	NoLocation       guard.Code = "no_location"
	TooManyRedirects guard.Code = "too_many_redirects"
	BudgetExhausted  guard.Code = "budget_exhausted"
	LinksOnly        guard.Code = "links_only"
)

var texts = map[guard.Code]string{
	PrivateAddress:   "the host has an address that is not public",
	DNSFailed:        "the host has no address",
	ConnectFailed:    "the host cannot be reached",
	TLSFailed:        "the host does not prove who it is",
	TimedOut:         "the host takes too long",
	BadStatus:        "the host answers with an error",
	BadContentType:   "what the host sends is no text",
	TooLarge:         "what the host sends is too large",
	Downgrade:        "the host redirects from https to http",
	NoLocation:       "the host redirects to nowhere",
	TooManyRedirects: "the host redirects too often",
	BudgetExhausted:  "the budget for fetching is spent",
	LinksOnly:        "only links and start URLs may be fetched",
}

// CodeOf returns the code of an error of this package; connect for any other error, and the empty code for nil.
func CodeOf(err error) guard.Code {
	var code guard.Code
	switch {
	case err == nil:
		return ""
	case errors.As(err, &code):
		return code
	}
	return ConnectFailed
}

// TextOf returns a constant text for the code, of this package or of a policy.
func TextOf(code guard.Code) string {
	if text, ok := texts[code]; ok {
		return text
	}
	return code.Error()
}

// StatusError is the error of a response that is neither a page nor a redirect. Its code is status.
type StatusError int

// Error returns a constant text with the status, which is three digits.
func (s StatusError) Error() string { return TextOf(BadStatus) }

// Unwrap returns the code.
func (s StatusError) Unwrap() error { return BadStatus }
