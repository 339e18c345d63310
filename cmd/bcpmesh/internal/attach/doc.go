// Package attach has the commands that connect a program to a mesh as an
// agent: agent, reader and mcp; and the one by which this program confines
// itself and becomes another one.
package attach
