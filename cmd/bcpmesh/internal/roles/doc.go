// Package roles has the commands about the roles of a mesh: who plays which (role list),
// how far their contracts are kept (role report), and what the organisation signs for
// others to read (role attest and role revoke), which lies in the state folder, where the
// gateway finds it.
package roles
