// Package simulate has the commands kernel and role, which play cases against the
// reasoning kernel and the contracts without a mesh, a model or a server.
package simulate
