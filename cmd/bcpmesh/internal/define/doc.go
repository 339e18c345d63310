// Package define has the commands about what a mesh is to be: init, check, perms, proposals and
// validate, which are about its definitions and need no running mesh; and role, which is about the
// parts that these give agents in kernels: who has which, what shows that contracts are kept, what is
// signed of it for other organisations, and what is shown to them or by them.
package define
