// Package accounts keeps the keys of a mesh and turns permissions into the
// JWTs by which a NATS server enforces them.
//
// The shortest correct use, for a mesh and one of its agents:
//
//	store, err := accounts.Create(stateFolder) // once; later accounts.Open
//	bundle, err := accounts.Compile(store, subjects.Permissions(mesh), time.Now())
//	creds, err := store.Issue("researcher", bcp.RoleReader, 24*time.Hour)
//	err = creds.WriteFile("researcher.creds")
//
// SYS is the server's own account. CORE belongs to the gateway and is the only one
// with JetStream. READERS, CONTROLLERS and OPERATORS (people), and, if the definitions
// need them, KEEPERS, PLANNERS, TOOLS, DISPATCH and JOIN import from CORE exactly what
// package subjects says, and nothing from one another: the gateway is the only path
// between a Reader and a Controller.
//
// Every agent has a scoped signing key for each of its roles; the account's
// JWT holds the key's permissions. So an edited definition needs no new creds
// file, and a leaked key can only make users of that agent in that role.
//
// The servers of a cluster get the claims from [CompileCluster]. A gateway
// without a store uses [Enforced] to read what they enforce, and
// [Bundle.Differences] lists the differences from the definitions.
//
// Private keys leave this package only as a [Signer], which reveals nothing,
// and inside the [Creds] of their owner. The operator's and the accounts'
// identity keys sign nothing but each other's claims: users signed by an
// account's identity key are refused by the server.
//
// A folder that others can read, or a key that is a symbolic link, is refused,
// not repaired. Several processes may use one folder.
package accounts
