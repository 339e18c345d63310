package keys

import (
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
const nodeText = `# One node of the NATS cluster that carries a mesh: an example to copy to each node and
# to adapt where it says "each node". Then: nats-server --config nats-server.conf

# Each node has a name of its own.
server_name: "node-1"

# Where agents, people and gateways connect. Beyond loopback only with the tls below:
# everything that agents say could be read and changed on the way.
listen: "127.0.0.1:4222"
# tls: {
#   cert_file: "/etc/nats/node-1.pem"
#   key_file: "/etc/nats/node-1.key"
#   timeout: 3
# }

# Monitoring asks nobody who they are: loopback, or not at all.
http: "127.0.0.1:8222"

# Who may do what. The same file on all nodes.
include "resolver.conf"
# With a second mesh on the cluster (accounts export --guest), its operator too:
# operator: ["/etc/nats/operator.jwt", "/etc/nats/lab-operator.jwt"]
# Where this node keeps the accounts, if not in /var/lib/nats/accounts:
# resolver: { type: full, dir: "/srv/nats/accounts", allow_delete: false, interval: "2m", timeout: "1.9s" }

# The limits of a mesh's own server. An answer fits into a message of 1 MiB.
max_payload: 1048576
max_pending: 16777216
max_sub_tokens: 16

# Agents are known by their creds and not by where they come from. Only behind a proxy
# that speaks this protocol, and that nobody gets around:
# proxy_protocol: true

# The journal. What is acknowledged is on the disk of a majority, also when the power
# of all nodes fails; with "2m" in place of always it is on their disks a little later.
jetstream: {
  store_dir: "/var/lib/nats/jetstream"
  sync_interval: always
  # max_file_store: 100GB
}

# The other nodes. Each node names all others, and listens for them where nobody else
# can: whoever reaches this port without the tls below can be a node.
cluster: {
  name: "bcpmesh"
  listen: "127.0.0.1:6222"
  routes: [
    "nats://127.0.0.1:6223"
    "nats://127.0.0.1:6224"
  ]
  # tls: {
  #   cert_file: "/etc/nats/node-1-cluster.pem"
  #   key_file: "/etc/nats/node-1-cluster.key"
  #   ca_file: "/etc/nats/cluster-ca.pem"
  #   verify: true
  # }
}

# Answers do not pass leaf nodes, and gateways of NATS are not tried with a mesh: none
# of either. WebSocket is for agents in browsers and behind proxies:
# websocket: {
#   listen: "0.0.0.0:8443"
#   tls: { cert_file: "/etc/nats/node-1.pem", key_file: "/etc/nats/node-1.key" }
# }
`
