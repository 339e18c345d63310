// Package web is the tool web_fetch, which gets web pages for an agent's
// model.
//
// A [Tool] belongs to one conversation. It checks arguments and policy, prices
// the URL, has a [Ledger] record every hop before the DNS lookup, and returns
// extracted, cleaned, cut and redacted text, or a code. A link on a served page
// costs less than a URL that the agent composed, because its bytes come from
// that page.
//
// Every failure is a [Result] with a code.
package web
