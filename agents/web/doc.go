// Package web is the tool web_fetch: it gets pages for the model of an agent.
//
// A [Tool] belongs to one conversation. It checks arguments and policy, prices
// the URL, has a [Ledger] record every hop before its name is looked up, and
// gives text that is extracted, cleaned, cut and redacted, or a code. A link of
// a page that was served costs less than a URL that the agent put together,
// because its bytes are cut from that page.
//
// It never fails in another way than by a [Result] with a code.
package web
