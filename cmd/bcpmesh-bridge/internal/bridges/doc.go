// Package bridges has the commands that join a mesh to what is not one: agents of A2A as Readers, a Controller
// served to A2A clients, and a relay between two meshes.
package bridges
