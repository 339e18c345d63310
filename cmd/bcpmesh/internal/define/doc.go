// Package define has the commands about definitions, which need no running
// mesh: init, check, perms, proposals, shards and validate.
package define
