// Package mailroom is a complete example: a tainted Reader that reads a
// mailbox, and a clean Controller, the assistant, that sorts the mail and acts
// without ever seeing it.
//
// The Reader has no model: what one would make of the shipped mail is written
// down in readings.json. On mail with a planted instruction it acts hijacked and
// repeats the attacker's text word for word. The assistant hears only what the gateway lets through:
// see the definitions in the folder mesh.
//
// [Run] connects both agents to a running mesh and works through the mail. The
// command "bcpmesh demo" runs it and tells the story.
package mailroom

import "github.com/bcpmesh/bcpmesh/bcp"

// The agents of the definitions.
const (
	ReaderAgent    bcp.AgentName = "mail-reader"
	AssistantAgent bcp.AgentName = "assistant"
)

// The subscriptions of the definitions.
const (
	newMail     bcp.SubscriptionID = "new-mail"
	replyNeeded bcp.SubscriptionID = "reply-needed"
)
