// Package define has the commands about definitions, for which no mesh needs to
// run: init, check, perms, proposals, shards and validate.
package define
