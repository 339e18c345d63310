package subjects

import "strconv"

// Subjects of the server's own account that the gateway's monitor needs: the
// only ones that it may use.
const (
	// Connections is the pattern of the server's events about clients that
	// connect and disconnect: one pattern, so that they come in their order.
	Connections = "$SYS.ACCOUNT.*.*"
	// UpdateClaims takes a new account JWT.
	UpdateClaims = "$SYS.REQ.CLAIMS.UPDATE"
	// LookupClaims is the pattern of [LookupClaimsOf].
	LookupClaims = "$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP"
	// Kicks is the pattern of [KickAt].
	Kicks = "$SYS.REQ.SERVER.*.KICK"
)

// Subjects of the system account of a cluster, beside those above, that a gateway
// outside of its servers needs, and whoever pushes claims to them.
const (
	// Shutdowns is the pattern of the events of servers that end.
	Shutdowns = "$SYS.SERVER.*.SHUTDOWN"
	// PingServers has each server say who it is and how it does.
	PingServers = "$SYS.REQ.SERVER.PING"
	// PingConnections has each server list its connections, and ConnectionsAt one.
	PingConnections = "$SYS.REQ.SERVER.PING.CONNZ"
	ConnectionsAt   = "$SYS.REQ.SERVER.*.CONNZ"
	// ListClaims has each server list the accounts whose claims it has, and
	// PackClaims one of them send all claims.
	ListClaims = "$SYS.REQ.CLAIMS.LIST"
	PackClaims = "$SYS.REQ.CLAIMS.PACK"
)

// JournalLeaders is where the cluster says, in the gateway's account, that the
// journal has a new leader.
const JournalLeaders = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED." + commitStream

// KeyChanges returns where the changes of a key of a key-value bucket are published.
func KeyChanges(bucket, key string) string { return "$KV." + bucket + "." + key }

// Bases is the pattern of [Base].
const Bases = root + "base.*"

// Base returns where a cluster keeps what a journal begins behind that was truncated up to
// a sequence.
func Base(sequence uint64) string { return root + "base." + strconv.FormatUint(sequence, 10) }

// MonitorInbox is the inbox prefix of the gateway's monitor, GatewayInbox that of
// the gateway itself, and PushInbox that of whoever pushes claims to a cluster.
// They are no agents' prefixes, since "gateway" is no agent's name.
const (
	MonitorInbox = "_INBOX_gateway_monitor"
	GatewayInbox = "_INBOX_gateway"
	PushInbox    = "_INBOX_gateway_push"
)

// LookupClaimsOf returns where a server is asked for an account's JWT.
// Account is a public account key; anything else gives the empty string.
func LookupClaimsOf(account string) string {
	return around("$SYS.REQ.ACCOUNT.", account, ".CLAIMS.LOOKUP")
}

// ConnectionsOf returns where a server of a cluster lists its connections. Server
// is the server's public key; anything else gives the empty string.
func ConnectionsOf(server string) string { return around("$SYS.REQ.SERVER.", server, ".CONNZ") }

// KickAt returns where a server is told to disconnect a client. Server is the
// server's public key; anything else gives the empty string.
func KickAt(server string) string { return around("$SYS.REQ.SERVER.", server, ".KICK") }

// MonitorPermissions returns all that the gateway's monitor may publish and
// subscribe to.
func MonitorPermissions() (publish, subscribe []string) {
	return []string{UpdateClaims, LookupClaims, Kicks},
		[]string{Connections, MonitorInbox + ".>"}
}

// RemoteMonitorPermissions returns all that the monitor of a gateway outside of the
// servers may publish and subscribe to. It reads claims and changes none.
func RemoteMonitorPermissions() (publish, subscribe []string) {
	return []string{PingServers, PingConnections, ConnectionsAt, Kicks, ListClaims, PackClaims, LookupClaims},
		[]string{Connections, Shutdowns, MonitorInbox + ".>"}
}

// PushPermissions returns all that whoever pushes claims to a cluster may publish
// and subscribe to.
func PushPermissions() (publish, subscribe []string) {
	return []string{PingServers, ListClaims, LookupClaims, UpdateClaims}, []string{PushInbox + ".>"}
}

// GatewayRefusals returns what the gateway may not publish in its own account:
// nothing that purges or replaces a stream, or deletes from one but the sealing
// keys, which an erasure does; so that a stolen runtime key cannot rewrite the
// journal. Nothing of the system's. And no call of a tool: a dispatcher does that.
func GatewayRefusals() []string {
	return []string{
		apiPrefix + ".STREAM.DELETE.>",
		apiPrefix + ".STREAM.PURGE.>",
		apiPrefix + ".STREAM.MSG.DELETE." + commitStream,
		apiPrefix + ".STREAM.MSG.DELETE." + AuditStream,
		apiPrefix + ".STREAM.MSG.DELETE." + LedgerStream,
		apiPrefix + ".STREAM.RESTORE.>",
		"$SYS.>",
		tree(KindCall),
	}
}

// around refuses everything but the upper-case letters and digits of a key.
func around(before, key, after string) string {
	if key == "" {
		return ""
	}
	for i := range len(key) {
		if c := key[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return ""
		}
	}
	return before + key + after
}
