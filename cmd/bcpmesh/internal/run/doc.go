// Package run has the commands that run a mesh in this process, up, gateway
// and demo, and reload, which loads new definitions into a running mesh; and
// web, whose pages up, gateway and demo serve as well.
package run
