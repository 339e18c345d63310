// Package meshdir finds what is on this machine: the folder of a mesh, its
// definitions, its state folder with the keys and the ready file of the mesh that
// runs, credentials files, and how to trust a server. It connects to nothing.
package meshdir
