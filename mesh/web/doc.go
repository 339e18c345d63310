// Package web serves pages about a mesh to its people. It is an ordinary client: it
// reads the audit over a connection of an auditor, shows what it says, and can change
// nothing.
//
// In come decisions ([Server.Follow]) and HTTP requests of browsers on the same
// machine; out go pages of package html/template. No page has inline code or style, no
// text of an agent is HTML, and every answer bears a policy that forbids both. A person
// logs in with a code that is printed on a terminal and works once. Held items, what
// they hold, and decisions about them are not shown here: bcpmesh approvals watch.
package web
