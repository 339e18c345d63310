package keys

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// The files of an export, from its folder, and those of a gateway, from its own.
const (
	exportedOperator = "operator.jwt"
	ExportedResolver = "resolver.conf"
	ExportedNode     = "nats-server.conf"
	ExportedSystem   = "system.creds"
	GatewaysFolder   = "gateways"
	GuestsFolder     = "guests"
	guestMonitor     = "monitor.creds"
	guestPush        = "push.creds"
)

// exportedText is a file of an export that holds no secret.
type exportedText struct{ name, text string }

func (e *export) texts(gateways []bcp.AgentName) []exportedText {
	operator := e.b.Operator + "\n"
	texts := []exportedText{{exportedOperator, operator}}
	if !e.guest {
		texts = append(texts, exportedText{ExportedResolver, resolverText(e.b)}, exportedText{ExportedNode, nodeText})
	}
	for _, folder := range folders(GatewaysFolder, gateways) {
		texts = append(texts, exportedText{filepath.Join(folder, exportedOperator), operator})
	}
	return texts
}

func folders(in string, names []bcp.AgentName) []string {
	var list []string
	for _, name := range names {
		list = append(list, filepath.Join(in, string(name)))
	}
	return list
}

// resolverText is what all nodes include.
func resolverText(b accounts.Bundle) string {
	var t strings.Builder
	system, _ := b.Account(accounts.System)
	fmt.Fprintf(&t, `# What every node of the cluster includes: who may sign accounts, and the accounts of
# the mesh as they were exported. Nothing here is secret. Servers keep newer accounts
# than these: "bcpmesh accounts push" gives them, and a node that was away gets them
# from the others.

operator: %s
system_account: %s

# A node that keeps its accounts elsewhere says so behind the line that includes this.
resolver: {
  type: full
  dir: "/var/lib/nats/accounts"
  allow_delete: false
  interval: "2m"
  timeout: "1.9s"
}

resolver_preload: {
`, b.Operator, system.PublicKey)
	for _, a := range b.Accounts {
		fmt.Fprintf(&t, "  # %s\n  %s: %s\n", a.Name, a.PublicKey, a.JWT)
	}
	t.WriteString("}\n")
	return t.String()
}

// nodeText is the configuration of a node as a mesh needs it.
//
//go:embed nats-server.conf
var nodeText string
