// Package run has the commands that run a mesh in this process, up, gateway
// and demo, and reload, which loads new definitions into a running mesh.
package run
