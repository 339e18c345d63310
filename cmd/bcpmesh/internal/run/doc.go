// Package run has the commands that run a mesh in this process: up, gateway and
// demo, and reload, which tells a mesh that runs of new definitions.
package run
