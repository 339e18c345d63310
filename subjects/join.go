package subjects

import "strings"

// The subjects for joining with an invitation (PROTOCOL P7.5): an invitation
// permits nothing else. The last token is its public key, which the server
// checks.
const (
	joinPrefix  = "bcp.v1.join."
	joinInbox   = inboxes
	joinAnswers = answers + "join."
	joinKeyText = "{{subject()}}"
)

const (
	// Joins matches every request to join.
	Joins = joinPrefix + "*"
	// JoinAnswers matches every answer to one.
	JoinAnswers = joinAnswers + "*.>"
	// Joiner is the name of holders of invitations.
	Joiner = "join"
)

// Join returns the subject on which the holder of an invitation asks. key is
// its public key; anything else gives the empty string.
func Join(key string) string { return around(joinPrefix, key, "") }

// JoinInbox returns the inbox prefix of the holder of an invitation. It is no
// agent's prefix, since no name of an agent has capital letters.
func JoinInbox(key string) string { return around(joinInbox, key, "") }

// JoinKey returns the public key of the invitation whose holder asks on a subject,
// or the empty string.
func JoinKey(subject string) string {
	key := strings.TrimPrefix(subject, joinPrefix)
	if Join(key) != subject {
		return ""
	}
	return key
}

// JoinAnswer is [Answer] for the holder of an invitation, by its public key.
func JoinAnswer(key, reply string) string { return answerTo(joinAnswers+key, JoinInbox(key), reply) }

// JoinExports are the ways between the gateway's account and that of invitations.
func JoinExports() []Export {
	return []Export{
		{Subject: Joins, Local: Joins, Way: ToGateway},
		{Subject: JoinAnswers, Local: inboxes + "*.>", Way: ToAgents},
	}
}

// JoinPermissions returns all that an invitation may publish and subscribe to, as
// a template that the server fills with its public key.
func JoinPermissions() (publish, subscribe []string) {
	return []string{joinPrefix + joinKeyText}, []string{joinInbox + joinKeyText + ".>"}
}
