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

// maxSources bounds the networks of one user, which are all in the account's JWT.
const maxSources = 16

// Restriction limits from where a user may connect. The zero value adds no restriction.
type Restriction struct {
	// Sources are the networks from which it may connect; none means any. A server knows a
	// client's address for a standard connection alone, so WebSocket is refused with them.
	Sources []netip.Prefix `json:"sources,omitempty"`
}

var errRestriction = errors.New("not a restriction")

// Checked returns the restriction in canonical form, or an error.
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
	return c, nil
}

func (r Restriction) none() bool { return len(r.Sources) == 0 }

func (r Restriction) equal(other Restriction) bool { return slices.Equal(r.Sources, other.Sources) }

// Lines returns the restriction as the audit shows it.
func (r Restriction) Lines() []string {
	var lines []string
	for _, p := range r.Sources {
		lines = append(lines, "source "+p.String())
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
	t.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard)
	if r.none() {
		t.AllowedConnectionTypes.Add(jwt.ConnectionTypeWebsocket)
	}
}
