// Package web serves web pages about a mesh to its people. It is an ordinary
// client: it uses connections with people's roles, shows what they may see, and
// has no other access.
//
// It takes messages of the mesh ([Mesh]) and HTTP requests of browsers, on the
// same machine or at a [Site], and returns pages: a handler collects what the page
// has, and a template of the folder pages shows it. No page has inline code or
// style, no text of an agent can become markup, and every response has a policy
// that forbids both. A person logs in with a one-time code, or at a site with a
// passkey. The content of a held item is shown only on its own page, to its
// approver; a decision is signed as in the terminal, or at a site by the person's
// passkey.
package web
