package bcp

import (
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// Severity says how soon somebody should look at what a person is notified of. Its zero
// value is none: nobody is notified.
type Severity uint8

// The severities, the least first.
const (
	SeverityInfo     Severity = 1 // worth knowing
	SeverityWarning  Severity = 2 // somebody has to act, today
	SeverityCritical Severity = 3 // somebody has to act now
)

var severityWords = []string{"", "info", "warning", "critical"}

func (s Severity) String() string                { return wire.Word(severityWords, s) }
func (s *Severity) UnmarshalText(b []byte) error { return wire.ParseWord(severityWords, b, s) }
func (s Severity) MarshalText() ([]byte, error)  { return wire.MarshalWord(severityWords, s) }

// WebhookFormat is the shape of what is posted to a webhook.
type WebhookFormat string

// The shapes.
const (
	WebhookJSON  WebhookFormat = "json"  // our own
	WebhookSlack WebhookFormat = "slack" // of Slack's incoming webhooks
	WebhookNtfy  WebhookFormat = "ntfy"  // text, with the headers of ntfy
	WebhookTeams WebhookFormat = "teams" // of the workflows of Microsoft Teams: an adaptive card
)

// NoticeTopic is what a person can be notified of.
type NoticeTopic string

// The topics.
const (
	TopicHeld        NoticeTopic = "held"        // something waits for a decision
	TopicAlerts      NoticeTopic = "alerts"      // every other alert
	TopicCredentials NoticeTopic = "credentials" // credentials that expire soon
)

// SecretName says where a secret is: in a variable of the environment, or in a file.
// Both empty is none.
type SecretName struct{ Variable, File string }

// IsZero reports whether it names nothing.
func (n SecretName) IsZero() bool { return n == SecretName{} }

// String is the name as it is written in definitions.
func (n SecretName) String() string {
	switch {
	case n.Variable != "":
		return "env:" + n.Variable
	case n.File != "":
		return "file:" + n.File
	}
	return ""
}

// Route is one way to a person: what is told, whom, how, and when. It has a webhook, a
// mail server or a command.
type Route struct {
	Name string
	// Person is whose it is: of items, those alone are told that this person may decide,
	// with their ids. Empty is nobody's, and every item's is told without.
	Person AgentName

	Webhook SecretName // of its URL
	Format  WebhookFormat

	MailServer string // host:port
	MailUser   string
	Password   SecretName
	MailFrom   string
	MailTo     []string

	Command []string

	Topics   []NoticeTopic
	Severity Severity      // the least that is told
	Repeat   time.Duration // of held items until somebody has looked; 0: told once
	Gather   time.Duration // a message in so long, after the first few
}

// Way is what the route has, in the word of its key: webhook, mail_server or command.
func (r *Route) Way() string {
	switch {
	case !r.Webhook.IsZero():
		return "webhook"
	case r.MailServer != "":
		return "mail_server"
	}
	return "command"
}

// Severity is how soon somebody should look at an alert.
func (k AlertKind) Severity() Severity {
	switch k {
	case AlertDiskCritical, AlertShared, AlertPanic, AlertWitnessRefused, AlertRollbackAccepted, AlertRollbackSeen, AlertJournal, AlertDamaged:
		return SeverityCritical
	case AlertThreshold, AlertMissed, AlertModelWorks:
		return SeverityInfo
	case "":
		return 0
	}
	return SeverityWarning
}

// Topic is what an alert belongs to.
func (k AlertKind) Topic() NoticeTopic {
	switch k {
	case AlertHeld:
		return TopicHeld
	case AlertExpiring:
		return TopicCredentials
	}
	return TopicAlerts
}
