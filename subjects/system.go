package subjects

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

// MonitorInbox is the inbox prefix of the gateway's monitor, and GatewayInbox
// that of the gateway itself. They are no agents' prefixes, since "gateway" is
// no agent's name.
const (
	MonitorInbox = "_INBOX_gateway_monitor"
	GatewayInbox = "_INBOX_gateway"
)

// LookupClaimsOf returns where a server is asked for an account's JWT.
// Account is a public account key; anything else gives the empty string.
func LookupClaimsOf(account string) string {
	return around("$SYS.REQ.ACCOUNT.", account, ".CLAIMS.LOOKUP")
}

// KickAt returns where a server is told to disconnect a client. Server is the
// server's public key; anything else gives the empty string.
func KickAt(server string) string { return around("$SYS.REQ.SERVER.", server, ".KICK") }

// MonitorPermissions returns all that the gateway's monitor may publish and
// subscribe to.
func MonitorPermissions() (publish, subscribe []string) {
	return []string{UpdateClaims, LookupClaims, Kicks},
		[]string{Connections, MonitorInbox + ".>"}
}

// GatewayRefusals returns what the gateway may not publish in its own account:
// nothing that deletes from, purges or replaces a stream, so that a stolen
// runtime key cannot rewrite the journal, and nothing of the system's.
func GatewayRefusals() []string {
	return []string{
		apiPrefix + ".STREAM.DELETE.>",
		apiPrefix + ".STREAM.PURGE.>",
		apiPrefix + ".STREAM.MSG.DELETE.>",
		apiPrefix + ".STREAM.RESTORE.>",
		"$SYS.>",
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
