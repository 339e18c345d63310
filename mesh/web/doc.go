// Package web serves pages about a mesh to its people. It is an ordinary client: it
// asks over connections of people's roles, shows what they may see, and has no other
// way to the mesh.
//
// In come what the mesh says to these connections ([Mesh]) and HTTP requests of browsers,
// on the same machine or at a [Site]; out go pages that package markup builds as nodes. No page has
// inline code or style, no text of an agent can become markup, and every response has a
// policy that forbids both. A person logs in with a code that works once, on a site with a
// passkey. What a held item holds is on its page alone, for its approver; a decision is
// signed as the terminal signs it, on a site by the person's passkey.
package web
