package subjects

import (
	"strconv"
	"strings"
)

// Subjects of the server's system account that the gateway's monitor needs: the
// only ones that it may use.
const (
	// Connections is the pattern of the server's events about clients that
	// connect and disconnect: a single one, to keep their order.
	Connections = "$SYS.ACCOUNT.*.*"
	// UpdateClaims takes a new account JWT.
	UpdateClaims = "$SYS.REQ.CLAIMS.UPDATE"
	// LookupClaims is the pattern of [LookupClaimsOf].
	LookupClaims = "$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP"
	// Kicks is the pattern of [KickAt].
	Kicks = "$SYS.REQ.SERVER.*.KICK"
)

// Further subjects of a cluster's system account, for a gateway outside its
// servers and for the program that pushes claims.
const (
	// Shutdowns is the pattern of the events of servers that shut down.
	Shutdowns = "$SYS.SERVER.*.SHUTDOWN"
	// PingServers has each server say who it is and how it does.
	PingServers = "$SYS.REQ.SERVER.PING"
	// PingConnections has each server list its connections, and ConnectionsAt one.
	PingConnections = "$SYS.REQ.SERVER.PING.CONNZ"
	ConnectionsAt   = "$SYS.REQ.SERVER.*.CONNZ"
	// ListClaims asks each server for the accounts whose claims it has, and
	// PackClaims one of them for all claims.
	ListClaims = "$SYS.REQ.CLAIMS.LIST"
	PackClaims = "$SYS.REQ.CLAIMS.PACK"
)

// JournalLeaders is the subject, in the gateway's account, on which the cluster
// announces a new leader of the journal.
const JournalLeaders = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED." + commitStream

// Bases is the pattern of [Base].
const Bases = root + "base.*"

// Base returns the subject on which a cluster stores the base of a journal that was
// truncated up to a sequence.
func Base(sequence uint64) string { return root + "base." + strconv.FormatUint(sequence, 10) }

// MonitorInbox is the inbox prefix of the gateway's monitor, GatewayInbox that of
// the gateway itself, and PushInbox that of the program that pushes claims to a
// cluster. No agent has them, since no agent can be named "gateway".
const (
	MonitorInbox = "_INBOX_gateway_monitor"
	GatewayInbox = "_INBOX_gateway"
	PushInbox    = "_INBOX_gateway_push"
)

// LookupClaimsOf returns the subject for asking a server for an account's JWT.
// account is a public account key; anything else gives the empty string.
func LookupClaimsOf(account string) string {
	return around("$SYS.REQ.ACCOUNT.", account, ".CLAIMS.LOOKUP")
}

// KickAt returns the subject for making a server disconnect a client. server is
// the server's public key; anything else gives the empty string.
func KickAt(server string) string { return around("$SYS.REQ.SERVER.", server, ".KICK") }

// MonitorPermissions returns all that the gateway's monitor may publish and
// subscribe to.
func MonitorPermissions() (publish, subscribe []string) {
	return []string{UpdateClaims, LookupClaims, Kicks},
		[]string{Connections, MonitorInbox + ".>"}
}

// RemoteMonitorPermissions returns all that the monitor of a gateway outside the
// servers may publish and subscribe to. It reads claims and changes none.
func RemoteMonitorPermissions() (publish, subscribe []string) {
	return []string{PingServers, PingConnections, ConnectionsAt, Kicks, ListClaims, PackClaims, LookupClaims},
		[]string{Connections, Shutdowns, MonitorInbox + ".>"}
}

// PushPermissions returns all that the program that pushes claims to a cluster
// may publish and subscribe to.
func PushPermissions() (publish, subscribe []string) {
	return []string{PingServers, ListClaims, LookupClaims, UpdateClaims}, []string{PushInbox + ".>"}
}

// GatewayRefusals returns what the gateway must not publish in its own account:
// anything that purges or replaces a stream, or deletes from one, except from the
// sealing keys, for an erasure; so that a stolen runtime key cannot rewrite the
// journal. Also nothing of the system's, and no call of a tool, which only
// dispatchers make.
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
	if key == "" || strings.Trim(key, upper+digits) != "" {
		return ""
	}
	return before + key + after
}
