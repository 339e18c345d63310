// Package roles has the commands about the roles of a mesh: who plays which (role list),
// how far their contracts are kept (role report), what the organisation signs for others to
// read (role attest and role revoke), which lies in the state folder, where the gateway
// finds it, and the negotiation with meshes of other organisations (role show, role judge).
package roles
