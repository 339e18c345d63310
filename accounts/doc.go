// Package accounts keeps the keys of a mesh and turns permissions into the
// JWTs by which a NATS server enforces them.
//
// The shortest correct use, for a mesh and for one agent of it:
//
//	store, err := accounts.Create(stateFolder) // once; later accounts.Open
//	bundle, err := accounts.Compile(store, subjects.Permissions(mesh), time.Now())
//	creds, err := store.Issue("researcher", bcp.RoleReader, 24*time.Hour)
//	err = creds.WriteFile("researcher.creds")
//
// There are five accounts. SYS is the server's own. CORE is the gateway's, the
// only one with JetStream. READERS, CONTROLLERS and OPERATORS (people) import
// from CORE exactly what package subjects says, and nothing from one another:
// between a Reader and a Controller there is no path but the gateway.
//
// Every agent has, for each of its roles, a scoped signing key whose
// permissions stand in the account's JWT. An edit of a definition therefore
// needs no new creds file, and a leaked key can make users of that one agent
// in that one role only.
//
// A cluster's servers get the claims of [CompileCluster]. What they enforce, a
// gateway that has no store reads with [Enforced], and [Bundle.Differences] says
// where that is not what the definitions grant.
//
// Private keys never leave this package but as a [Signer], which shows
// nothing, and inside a [Creds], whose owner they belong to. The operator's
// and the accounts' identity keys sign nothing but each other's claims: users
// signed by an account's identity key are refused by the server.
//
// A folder that others may read, or a symbolic link in the place of a key, is
// refused rather than repaired. Several processes may use one folder.
package accounts
