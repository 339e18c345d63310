package accounts

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nats-io/jwt/v2"
)

// The types of connections.
const (
	Standard  = "standard"
	WebSocket = "websocket"
)

// ConnectionTypes returns all of them.
func ConnectionTypes() []string { return []string{Standard, WebSocket} }

// connectionTypes are the words for them in claims.
var connectionTypes = map[string]string{Standard: jwt.ConnectionTypeStandard, WebSocket: jwt.ConnectionTypeWebsocket}

// maxSources bounds the networks of one user, which are all in the account's JWT.
const maxSources = 16

// Restriction limits from where, and how, a user may connect. The zero value
// adds no restriction.
type Restriction struct {
	// Sources are the networks from which it may connect; none means any.
	Sources []netip.Prefix `json:"sources,omitempty"`
	// Connections are the [ConnectionTypes] that it may use; none means all.
	Connections []string `json:"connections,omitempty"`
}

var errRestriction = errors.New("not a restriction")

// Checked returns the restriction in canonical form, or an error. The server
// knows a client's address only for a standard connection, so with sources no
// other is allowed.
func (r Restriction) Checked() (Restriction, error) {
	if len(r.Sources) > maxSources {
		return r, fmt.Errorf("%w: more than %d networks", errRestriction, maxSources)
	}
	var c Restriction
	for _, p := range r.Sources {
		if !p.IsValid() {
			return r, fmt.Errorf("%w: not a network", errRestriction)
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		c.Sources = append(c.Sources, p.Masked())
	}
	slices.SortFunc(c.Sources, func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) })
	c.Sources = slices.Compact(c.Sources)
	for _, t := range r.Connections {
		if !slices.Contains(ConnectionTypes(), t) {
			return r, fmt.Errorf("%w: no such type of connection", errRestriction)
		}
	}
	c.Connections = slices.Clone(r.Connections)
	if len(c.Sources) > 0 {
		if slices.Contains(c.Connections, WebSocket) {
			return r, fmt.Errorf("%w: the source of a WebSocket is not known, so --source needs a standard connection", errRestriction)
		}
		c.Connections = []string{Standard}
	}
	slices.Sort(c.Connections)
	if c.Connections = slices.Compact(c.Connections); len(c.Connections) == len(ConnectionTypes()) {
		c.Connections = nil
	}
	return c, nil
}

func (r Restriction) none() bool { return len(r.Sources) == 0 && len(r.Connections) == 0 }

func (r Restriction) equal(other Restriction) bool {
	return slices.Equal(r.Sources, other.Sources) && slices.Equal(r.Connections, other.Connections)
}

// Lines returns the restriction as the audit shows it.
func (r Restriction) Lines() []string {
	var lines []string
	for _, p := range r.Sources {
		lines = append(lines, "source "+p.String())
	}
	for _, t := range r.Connections {
		lines = append(lines, "connection "+t)
	}
	return lines
}

// digest names the restriction in a file's name.
func (r Restriction) digest() string {
	sum := sha256.Sum256([]byte(strings.Join(r.Lines(), "\n")))
	return hex.EncodeToString(sum[:8])
}

// write puts it into the template of a scope.
func (r Restriction) write(t *jwt.UserPermissionLimits) {
	for _, p := range r.Sources {
		t.Src.Add(p.String())
	}
	for _, name := range ConnectionTypes() {
		if len(r.Connections) == 0 || slices.Contains(r.Connections, name) {
			t.AllowedConnectionTypes.Add(connectionTypes[name])
		}
	}
}
