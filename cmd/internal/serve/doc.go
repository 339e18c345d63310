// Package serve has what commands share that serve until they are interrupted: hosts over HTTP on this machine, and queries as
// a Reader.
package serve
