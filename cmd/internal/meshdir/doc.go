// Package meshdir finds files on this machine: the folder of a mesh, its
// definitions, its state folder with the keys and the ready file of the
// running mesh, credentials files, and certificates to trust. It connects to
// nothing.
package meshdir
