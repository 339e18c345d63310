// Package define has the commands about definitions, which need no running
// mesh: init, check, perms, proposals and validate.
package define
