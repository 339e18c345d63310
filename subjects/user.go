package subjects

import (
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// UserName returns the name of the users and the scope of an agent, or a person,
// in a role: in creds, in accounts, and in a server's reports of a connection. If
// either is invalid it returns the empty string.
func UserName(name bcp.AgentName, r bcp.Role) string {
	word, err := r.MarshalText()
	if err != nil || agent(name) == "" {
		return ""
	}
	return string(word) + "-" + string(name)
}

// ParseUserName is the exact inverse of [UserName].
func ParseUserName(text string) (bcp.AgentName, bcp.Role, bool) {
	word, name, _ := strings.Cut(text, "-")
	var r bcp.Role
	if r.UnmarshalText([]byte(word)) != nil || UserName(bcp.AgentName(name), r) != text {
		return "", 0, false
	}
	return bcp.AgentName(name), r, true
}
