package bcp

import "errors"

// Identifiers are distinct types so that one cannot be passed for another.
// Each is made by its parser; the zero value of each is invalid.
type (
	// AgentName names an agent or a person: ^[a-z0-9][a-z0-9-]{0,62}$, one
	// subject token, never "gateway" (PROTOCOL P1.1).
	AgentName string
	// SubscriptionID is unique within its channel: letters, digits and
	// hyphens, 1 to 64 (PROTOCOL P1.1, SUB-30).
	SubscriptionID string
	// QueryID is made by the gateway, random, at least 96 bits.
	QueryID string
	// DeliveryID is made by the gateway, random, at least 96 bits, and stays
	// the same over redeliveries.
	DeliveryID string
	// SessionID names a Controller's task.
	SessionID string
	// ClientID is what an agent calls its own request: the request_id of an
	// ask, the push_id of a push: ^[A-Za-z0-9_-]{1,64}$ (PROTOCOL P1.1, P2.6).
	ClientID string
)

// MarkHeader is the header of a message with a mark: how far the journal is, for the agent
// to keep, from the gateway; the one that an agent keeps, or nothing, to it (PROTOCOL
// P11.7).
const MarkHeader = "Bcp-Mark"

// ReplyHeader is the header of an approval and of a message about roles: the reply subject
// again, which the server does not show the gateway there.
const ReplyHeader = "Bcp-Reply"

// Gateway is the reserved agent name of the gateway itself.
const Gateway AgentName = "gateway"

// Errors of the parsers. Their texts never quote the input.
var (
	ErrAgentName      = errors.New("an agent name is 1 to 63 of a-z, 0-9 and hyphen, begins with a letter or digit, and is not \"gateway\"")
	ErrSubscriptionID = errors.New("a subscription id is 1 to 64 letters, digits and hyphens")
	ErrID             = errors.New("an id is 1 to 64 letters, digits, hyphens and underscores")
)

// ParseAgentName returns s as a name, or [ErrAgentName].
func ParseAgentName(s string) (AgentName, error) {
	if len(s) < 1 || len(s) > maxAgentName || s[0] == '-' || AgentName(s) == Gateway {
		return "", ErrAgentName
	}
	for i := range len(s) {
		if c := s[i]; !isLower(c) && !isDigit(c) && c != '-' {
			return "", ErrAgentName
		}
	}
	return AgentName(s), nil
}

// ParseSubscriptionID returns s as an id, or [ErrSubscriptionID].
func ParseSubscriptionID(s string) (SubscriptionID, error) {
	if !isToken(s, false) {
		return "", ErrSubscriptionID
	}
	return SubscriptionID(s), nil
}

// ParseQueryID returns s as an id, or [ErrID].
func ParseQueryID(s string) (QueryID, error) { return parseID[QueryID](s) }

// ParseDeliveryID returns s as an id, or [ErrID].
func ParseDeliveryID(s string) (DeliveryID, error) { return parseID[DeliveryID](s) }

// ParseItemID returns s as an id, or [ErrID].
func ParseItemID(s string) (ItemID, error) { return parseID[ItemID](s) }

// ParseClientID returns s as an id, or [ErrID].
func ParseClientID(s string) (ClientID, error) { return parseID[ClientID](s) }

func parseID[T ~string](s string) (T, error) {
	if !isToken(s, true) {
		return "", ErrID
	}
	return T(s), nil
}

func isToken(s string, underscore bool) bool {
	if len(s) < 1 || len(s) > maxID {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isLower(c) && !isUpper(c) && !isDigit(c) && c != '-' && (c != '_' || !underscore) {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
