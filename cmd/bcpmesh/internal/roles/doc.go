// Package roles has the commands about roles in a mesh: role list and role
// report; role attest, which sign statements for other
// organisations and leave them in the state folder for the gateway; role show
// and role judge, which negotiate with other organisations' meshes.
package roles
