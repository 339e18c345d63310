// Package roles has the commands about roles: role, and role report, about those of a mesh; role attest, which
// signs statements for other organisations and leaves them in the state folder for the gateway; role show, which brings them
// to other meshes; and role verify, which judges those of others.
package roles
